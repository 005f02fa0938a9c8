-- The jobs that are assigned to workers and have not started, in no order. No index finds them, because the column changes with every start. So the
-- claims are read once, in sequence, and only those with such jobs are expanded.
create or replace function sluice.assigned_jobs_v1() returns setof sluice.claimed
language sql stable rows 50
set jit = off set enable_seqscan = on set enable_hashjoin = off set enable_mergejoin = off
as $$
  select j.* from sluice.claims c join sluice.claimed j on j.worker_id = c.worker_id and j.seq = c.seq and j.assigned
   where c.assigned is not null
$$;
