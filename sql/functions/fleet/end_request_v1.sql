-- Ends an open request. False: another server has. The server that ends it may die before it has stopped the workers that did not arrive, so their
-- stop is recorded with it.
create or replace function sluice.end_request_v1(p_id bigint, p_outcome text, p_why text) returns boolean
language plpgsql as $$
declare
  v_pool    text;
  v_arrived integer;
begin
  update sluice.fleet_decisions d
     set ended_at = clock_timestamp(), outcome = p_outcome, ended_why = p_why,
         stop_at = case when d.instances <> '[]' then clock_timestamp() end
   where d.id = p_id and d.ended_at is null
  returning d.pool, (select count(distinct w.request) from sluice.workers w where split_part(w.request, '.', 1) = d.token) into v_pool, v_arrived;
  if not found then
    return false;
  end if;
  insert into sluice.fleet_samples as s (pool, failed, arrived) values (v_pool, (p_outcome <> 'arrived')::integer, v_arrived)
    on conflict (pool) do update set failed = s.failed + excluded.failed, arrived = s.arrived + excluded.arrived;
  return true;
end $$;
