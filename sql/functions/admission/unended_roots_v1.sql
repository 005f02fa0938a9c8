-- Root jobs that have not ended. For the time until the lists are complete.
create or replace function sluice.unended_roots_v1() returns table (id bigint, submitted_by text)
language sql stable
set jit = off set enable_seqscan = off
as $$
  select j.id, j.submitted_by from sluice.jobs j where j.state = 'ready' and j.parent_id is null
  union all
  select j.id, j.submitted_by from sluice.jobs j where j.state = 'running' and j.parent_id is null
  union all
  select j.id, j.submitted_by from sluice.jobs j where j.state = 'scheduled' and j.parent_id is null
  union all
  select j.id, j.submitted_by from sluice.jobs j where j.state = 'awaiting_approval' and j.parent_id is null
$$;
