-- Changes the priority of jobs that have not started, and of composites that have not ended with everything below them. Small workflows
-- change at once; what is left of large ones is for the duty "follow". Answers what was changed, and the priorities before.
create or replace function sluice.reprioritise_v1(p_ids bigint[], p_priority integer) returns table (id bigint, before integer)
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  v_roots bigint[];
  v_left  integer := 1000;
  v_batch record;
begin
  perform 1 from sluice.composites c where c.job_id = any (p_ids) order by c.job_id for no key update;
  return query
  with locked as materialized (
    select j.id, j.priority from sluice.jobs j
     where j.id = any (p_ids) and (j.state < 'running' or j.state = 'running' and j.composite is not null)
     order by j.id for no key update
  ), changed as (
    update sluice.jobs j
       set priority = p_priority, rank = coalesce(sluice.rank_in_class_v1(j.class_id, p_priority, j.submitted_at), j.rank)
     where j.id = any (array(select k.id from locked k))
    returning j.id, j.composite
  ), marked as (
    insert into sluice.priority_changes (job_id, priority) select c.id, p_priority from changed c where c.composite is not null
    on conflict (job_id) do update set priority = excluded.priority, next_idx = 0, missed = null, retry_at = clock_timestamp()
  )
  select k.id, k.priority from locked k join changed c on c.id = k.id order by k.id;
  if not found then
    return;
  end if;
  v_roots := array(select coalesce(j.root_id, j.id) from sluice.priority_changes m join sluice.jobs j on j.id = m.job_id where m.job_id = any (p_ids));
  while v_left > 0 and v_roots <> '{}' loop
    select * into v_batch from sluice.spread_priority_v1(v_left, v_roots);
    exit when not v_batch.more;
    v_left := v_left - greatest(v_batch.changed, 10);
  end loop;
  perform sluice.hint_v1('ready', 'commit');
end $$;
