-- Root jobs that have not ended. For the time until the lists are complete.
create or replace function sluice.unended_roots_v1() returns table (id bigint, submitted_by text)
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  select d.id, d.submitted_by
    from (select q.id from sluice.queue q where q.state = 'ready' and q.parent_id is null
          union all
          select q.id from sluice.queue q where q.state = 'scheduled' and q.parent_id is null
          union all
          select q.id from sluice.queue q where q.state = 'awaiting_approval' and q.parent_id is null
          union all
          select r.id from sluice.running r where r.parent_id is null
          union all
          select c.job_id from sluice.composites c where not c.ended and c.started_at is not null and c.depth = 0) u
    join sluice.job_data d on d.id = u.id
$$;
