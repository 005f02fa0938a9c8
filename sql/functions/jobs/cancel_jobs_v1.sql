-- Cancels several jobs as sluice.cancel_job_v1 does one, locked in the order of everybody. Answers those that had not ended.
create or replace function sluice.cancel_jobs_v1(p_ids bigint[], p_reason text) returns table (id bigint, before sluice.job_state, after sluice.job_state)
language plpgsql
set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  perform 1 from sluice.composites c where c.job_id = any (p_ids) order by c.job_id for no key update;
  -- The queue first: what is claimed before it is locked is locked where it runs.
  perform 1 from sluice.queue q where q.id = any (p_ids) order by q.id for update;
  perform 1 from sluice.running r where r.id = any (p_ids) order by r.id for no key update;
  return query
  select k.id, k.state, c.state
    from (select j.id, j.state from sluice.jobs j where j.id = any (p_ids) and j.state < 'completed' order by j.id offset 0) k
   cross join lateral (select sluice.cancel_job_v1(k.id, p_reason) as state) c
   where c.state is not null;
end $$;
