-- The running jobs, one row each. Name the worker wherever it is known.
create or replace view sluice.running as
select r.id, r.worker_id, r.seq, r.started_at, r.ready_at, r.deadline_at, r.cancel_at, r.parent_id, r.idx, r.class_id, r.attempt, r.failures,
       r.losses,
       r.keyed, r.error
  from sluice.claimed r where not r.assigned;
