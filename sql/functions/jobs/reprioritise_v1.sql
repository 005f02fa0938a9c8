-- Changes the priority of jobs that have not started, and of composites that have not ended with everything below them. Small workflows change at
-- once; the duty "follow" does the rest of large ones. Returns what was changed, and the previous priorities. An assigned job keeps its position in
-- its worker, and has the new priority if it returns to the queue.
create or replace function sluice.reprioritise_v1(p_ids bigint[], p_priority integer) returns table (id bigint, before integer)
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  v_ids   bigint[];
  v_more  bigint[] := '{}';   -- those that are assigned to workers
  v_roots bigint[];
  v_left  integer := 1000;
  v_batch record;
begin
  perform 1 from sluice.composites c where c.job_id = any (p_ids) order by c.job_id for no key update;
  v_ids := array(select q.id from sluice.queue q where q.id = any (p_ids) order by q.id for no key update);
  if cardinality(v_ids) < cardinality(p_ids) then
    v_more := array(select a.id from (select c.assigned from sluice.claims c where c.assigned && p_ids
                                       order by c.worker_id, c.seq for no key update) c
                     cross join lateral unnest(c.assigned) a(id) where a.id = any (p_ids));
  end if;
  return query
  with waiting as materialized (
    select q.id from sluice.queue q where q.id = any (v_ids)
    union
    select m.id from unnest(v_more) m(id)
    union
    select c.job_id from sluice.composites c where c.job_id = any (p_ids) and not c.ended
  ), before as materialized (
    select d.id, d.priority, d.composite from sluice.job_data d where d.id = any (array(select w.id from waiting w))
  ), changed as (
    update sluice.job_data d set priority = p_priority where d.id = any (array(select b.id from before b))
  ), ranked as (
    update sluice.queue q
       set rank = coalesce(sluice.rank_in_class_v1(q.class_id, p_priority, (select d.submitted_at from sluice.job_data d where d.id = q.id)), q.rank)
     where q.id = any (array(select b.id from before b))
  ), marked as (
    insert into sluice.priority_changes (job_id, priority) select b.id, p_priority from before b where b.composite is not null
    on conflict (job_id) do update set priority = excluded.priority, next_idx = 0, missed = null, retry_at = clock_timestamp()
  )
  select b.id, b.priority from before b order by b.id;
  if not found then
    return;
  end if;
  v_roots := array(select coalesce(d.root_id, d.id) from sluice.priority_changes m join sluice.job_data d on d.id = m.job_id
                    where m.job_id = any (p_ids));
  while v_left > 0 and v_roots <> '{}' loop
    select * into v_batch from sluice.spread_priority_v1(v_left, v_roots);
    exit when not v_batch.more;
    v_left := v_left - greatest(v_batch.changed, 10);
  end loop;
  perform sluice.hint_v1('ready', 'commit');
end $$;
