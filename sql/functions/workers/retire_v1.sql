-- Decides whether a worker may leave: it has been idle for long enough, or has lived for as long as its pool allows. It then takes nothing new, and
-- ends once its jobs have ended. Returns the reason, or null: it stays.
--
-- The pool's row is locked first, and the workers are counted in a separate statement, which sees workers that were let go before. So however many
-- ask at once, the pool keeps its minimum. A worker that has not answered for two heartbeats is not counted.
create or replace function sluice.retire_v1(p_worker bigint, p_idle_ms double precision) returns text
language plpgsql as $$
declare
  v_worker sluice.workers;
  v_pool   sluice.pools;
  v_why    text;
  v_idle   boolean := false;
begin
  select * into v_worker from sluice.workers w where w.id = p_worker;
  select * into v_pool from sluice.pools p where p.name = v_worker.pool for no key update;
  if not found then
    return null;
  end if;
  if v_worker.started_at < clock_timestamp() - make_interval(secs => v_pool.lifetime_ms / 1000.0) then
    v_why := format('lived for %s s, the lifetime in pool %s', round(v_pool.lifetime_ms / 1000.0, 1)::float8, v_pool.name);
  elsif p_idle_ms >= v_pool.idle_ms
        and not exists (select 1 from sluice.claimed r where r.worker_id = p_worker) then
    v_idle := true;
    v_why := format('idle for %s s in pool %s', round(p_idle_ms::numeric / 1000, 1)::float8, v_pool.name);
  else
    return null;
  end if;
  if (select count(*) from sluice.workers w
       where w.pool = v_pool.name and w.ended_at is null and not w.draining and w.id <> p_worker
         and w.seen_at > clock_timestamp() - 2 * make_interval(secs => (select s.value / 1000.0 from sluice.settings s
                                                                         where s.name = 'heartbeat_ms')))
     < v_pool.min then
    return null;
  end if;
  update sluice.workers w set draining = true, leaving = v_why, returnable = v_idle where w.id = p_worker and w.ended_at is null and not w.draining;
  if not found then
    return null;
  end if;
  perform pg_notify('sluice', 'workers');
  return v_why;
end $$;
