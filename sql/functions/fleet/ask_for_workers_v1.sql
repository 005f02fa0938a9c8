-- Opens a request for workers, and returns how many may be started. Null: another server has decided something for the pool since it was read
-- (p_seen), or the pool has its maximum.
create or replace function sluice.ask_for_workers_v1(
  p_pool text, p_seen bigint, p_token text, p_count integer, p_reason text, p_overflow jsonb, p_by text, p_call_ms integer
) returns table (id bigint, count integer)
language plpgsql as $$
#variable_conflict use_column
declare
  v_pool sluice.pools;
  v_room integer;
begin
  select * into v_pool from sluice.pools p where p.name = p_pool for no key update;
  if not found or p_seen <> coalesce((select max(d.id) from sluice.fleet_decisions d where d.pool = p_pool), 0)
     or exists (select 1 from sluice.fleet_decisions d where d.pool = p_pool and d.ended_at is null) then
    return;
  end if;
  v_room := v_pool.max - (select count(*) from sluice.workers w where w.pool = p_pool and w.ended_at is null);
  if v_room <= 0 then
    return;
  end if;
  insert into sluice.fleet_samples as s (pool, requests) values (p_pool, 1)
    on conflict (pool) do update set requests = s.requests + 1;
  return query
  insert into sluice.fleet_decisions as d (pool, action, count, reason, overflow, decided_by, token, arrive_by, taken_until)
    values (p_pool, 'start', least(p_count, v_room), p_reason, p_overflow, p_by, p_token,
            clock_timestamp() + make_interval(secs => v_pool.arrival_ms / 1000.0),
            clock_timestamp() + make_interval(secs => p_call_ms / 1000.0))
    returning d.id, d.count;
end $$;
