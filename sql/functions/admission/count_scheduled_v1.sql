-- Counts the scheduled root jobs, up to p_most.
create or replace function sluice.count_scheduled_v1(p_most integer default null) returns integer
language sql stable
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
  select count(*)::integer
    from (select 1 from sluice.queue q where q.state = 'scheduled' and q.started_at is null and q.parent_id is null limit p_most) x
$$;
