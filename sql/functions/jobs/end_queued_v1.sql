-- Ends waiting jobs, and returns what they were. A job that is not in the queue any more is left out: its row decides between competing sessions. The
-- caller reports the endings to the parents.
--   p_cancel  a cancel was requested
create or replace function sluice.end_queued_v1(p_ids bigint[], p_state sluice.job_state, p_error text, p_cancel boolean default false)
returns table (id bigint, before sluice.job_state, parent_id bigint, idx integer, is_composite boolean)
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
  with gone as (
    delete from sluice.queue q where q.id = any (p_ids) returning q.*
  ), kept as (
    insert into sluice.outcomes (id, state, error, cancel_at, ready_at, started_at, deadline_at, class_id, attempt, failures, losses, is_root)
    select g.id, p_state, p_error, case when p_cancel then clock_timestamp() end, g.ready_at, g.started_at, g.deadline_at, g.class_id,
           g.attempt, g.failures, g.losses, g.parent_id is null
      from gone g
  ), freed as (
    delete from sluice.job_keys k where k.job_id = any (array(select g.id from gone g where g.keyed))
  ), closed as (
    update sluice.composites c set ended = true where c.job_id = any (array(select g.id from gone g where g.class_id is null))
  )
  select g.id, g.state, g.parent_id, g.idx, g.class_id is null from gone g;
end $$;
