-- How many root jobs are scheduled, counted up to p_most.
create or replace function sluice.count_scheduled_v1(p_most integer default null) returns integer
language sql stable
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
  select count(*)::integer
    from (select 1 from sluice.jobs j where j.state = 'scheduled' and j.started_at is null and j.parent_id is null limit p_most) x
$$;
