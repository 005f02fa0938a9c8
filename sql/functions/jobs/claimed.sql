-- The jobs that workers hold, one row each: the claims, expanded. Assigned jobs have not been reported as started. Name the worker wherever it is
-- known, because claims are indexed by worker; without it, all claims are read.
create or replace view sluice.claimed as
select j.id, c.worker_id, c.seq, c.started_at, j.ready_at, j.deadline_at, (c.cancels -> j.id::text ->> 'at')::timestamptz as cancel_at,
       j.parent_id, j.idx, c.class_id, coalesce(j.attempt, 1) as attempt, coalesce(j.failures, 0::smallint) as failures,
       coalesce(j.losses, 0::smallint) as losses, coalesce(j.keyed, false) as keyed, coalesce(c.cancels -> j.id::text ->> 'error', j.error) as error,
       coalesce(j.id = any (c.assigned), false) as assigned
  from sluice.claims c
 cross join lateral unnest(c.ids, c.ready_ats, c.deadlines, c.attempts, c.failures, c.losses, c.parents, c.idxs, c.keyed, c.errors)
                    as j(id, ready_at, deadline_at, attempt, failures, losses, parent_id, idx, keyed, error);
