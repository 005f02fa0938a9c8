-- The ids of root jobs that have not ended, from the tables that hold them. PostgreSQL inlines it, so it costs what its query costs.
--   is_active  the job is not scheduled for its first start
create or replace function sluice.unended_root_ids_v1() returns table (id bigint, is_active boolean)
language sql stable as $$
  select q.id, true from sluice.queue q where q.state = 'ready' and q.parent_id is null
  union all
  select q.id, q.started_at is not null from sluice.queue q where q.state = 'scheduled' and q.parent_id is null
  union all
  select q.id, true from sluice.queue q where q.state = 'awaiting_approval' and q.parent_id is null
  union all
  select r.id, true from sluice.claimed r where r.parent_id is null
  union all
  select c.job_id, true from sluice.composites c where not c.ended and c.started_at is not null and c.depth = 0
$$;
