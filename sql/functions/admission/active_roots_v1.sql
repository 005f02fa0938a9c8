-- Root jobs that are active: what the ledger has to list. For the time until it is complete.
create or replace function sluice.active_roots_v1(p_set sluice.admission) returns bigint[]
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  select array(
    select u.id
      from (select q.id from sluice.queue q where q.state = 'ready' and q.parent_id is null
            union all
            select q.id from sluice.queue q where q.state = 'scheduled' and q.started_at is not null and q.parent_id is null
            union all
            select q.id from sluice.queue q where q.state = 'awaiting_approval' and q.parent_id is null
            union all
            select r.id from sluice.running r where r.parent_id is null
            union all
            select c.job_id from sluice.composites c where not c.ended and c.started_at is not null and c.depth = 0) u
     where p_set.max_active is not null or exists (select 1 from sluice.job_data d where d.id = u.id and p_set.max_queued ? d.task))
$$;
