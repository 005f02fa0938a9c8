-- Ends a worker that leaves on its own, after it has handed everything back.
create or replace function sluice.end_worker_v1(p_worker bigint, p_why text) returns boolean
language plpgsql as $$
begin
  perform 1 from sluice.holdings h where h.worker_id = p_worker order by h.lane for no key update;
  if exists (select 1 from sluice.claimed r where r.worker_id = p_worker) then
    return false;
  end if;
  if exists (select 1 from sluice.holdings h join sluice.holdings o on o.lane = h.lane and o.wants and o.worker_id <> p_worker
              where h.worker_id = p_worker and (h.slots > 0 or h.wants)) then
    perform pg_notify('sluice', 'slots');
  end if;
  delete from sluice.holdings h where h.worker_id = p_worker;
  update sluice.workers w set ended_at = clock_timestamp(), ended_why = coalesce(w.leaving, p_why) where w.id = p_worker and w.ended_at is null;
  if found and exists (select 1 from sluice.residents r where r.worker_id = p_worker) then
    perform pg_notify('sluice', 'ready');   -- the room of its models is free
  end if;
  if exists (select 1 from sluice.workers w where w.id = p_worker and w.processes > 0) then
    perform pg_notify('sluice', 'workers');   -- so are its cores
  end if;
  return true;
end $$;
