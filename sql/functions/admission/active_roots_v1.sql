-- Root jobs that are active: what the ledger has to list. For the time until it is complete.
create or replace function sluice.active_roots_v1(p_set sluice.admission) returns bigint[]
language sql stable
set jit = off set enable_seqscan = off
as $$
  select array(
    select j.id from sluice.jobs j where j.state = 'ready' and j.parent_id is null and (p_set.max_active is not null or p_set.max_queued ? j.task)
    union all
    select j.id from sluice.jobs j where j.state = 'running' and j.parent_id is null and (p_set.max_active is not null or p_set.max_queued ? j.task)
    union all
    select j.id from sluice.jobs j where j.state = 'scheduled' and j.started_at is not null and j.parent_id is null and (p_set.max_active is not null or p_set.max_queued ? j.task)
    union all
    select j.id from sluice.jobs j where j.state = 'awaiting_approval' and j.parent_id is null and (p_set.max_active is not null or p_set.max_queued ? j.task))
$$;
