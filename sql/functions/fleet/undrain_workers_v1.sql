-- Tells workers that are leaving to stay, in their fill order, and returns how many. 0: another server has decided something for the pool since it
-- was read, or the workers have gone.
create or replace function sluice.undrain_workers_v1(p_pool text, p_seen bigint, p_count integer, p_reason text, p_overflow jsonb, p_by text)
returns integer
language plpgsql as $$
declare
  v_ids bigint[];
begin
  perform 1 from sluice.pools p where p.name = p_pool for no key update;
  if p_seen <> coalesce((select max(d.id) from sluice.fleet_decisions d where d.pool = p_pool), 0) then
    return 0;
  end if;
  v_ids := array(select w.id from sluice.workers w where w.pool = p_pool and w.ended_at is null and w.returnable
                  order by w.id limit p_count for no key update);
  update sluice.workers w set draining = false, leaving = null, returnable = false where w.id = any (v_ids);
  if cardinality(v_ids) = 0 then
    return 0;
  end if;
  insert into sluice.fleet_decisions (pool, action, count, reason, overflow, decided_by, ended_at, outcome)
    values (p_pool, 'bring-back', cardinality(v_ids), p_reason, p_overflow, p_by, clock_timestamp(), 'returned');
  insert into sluice.fleet_samples as s (pool, returned) values (p_pool, cardinality(v_ids))
    on conflict (pool) do update set returned = s.returned + excluded.returned;
  perform pg_notify('sluice', 'workers');
  return cardinality(v_ids);
end $$;
