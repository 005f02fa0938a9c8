-- Whether a worker has to end: it was asked to, or leaves by itself and has nothing left to do.
create or replace function sluice.must_stop_v1(p_worker sluice.workers) returns boolean
language sql stable
return p_worker.stopping or p_worker.leaving is not null and p_worker.draining
  and not exists (select 1 from sluice.claimed r where r.worker_id = p_worker.id);
