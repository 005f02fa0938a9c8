-- Returns leaf jobs that have failed or were cancelled to the queue, where they wait until their composite lets them start. Returns how many.
--   p_priority  of the root: theirs may have been changed after they ended
create or replace function sluice.put_back_leaves_v1(p_leaves bigint[], p_priority integer, p_now timestamptz) returns integer
language plpgsql as $$
declare
  v_count integer;
begin
  -- What was approved is asked for again, and so is what has been guarded since.
  update sluice.job_data d
     set class_id = coalesce(d.class_id, t.class_id), priority = p_priority, approved_by = null,
         policy = case when t.approval then coalesce(d.policy, '{}') || '{"approval": true}' else d.policy end
    from sluice.job_data k left join sluice.tasks t on t.name = k.task
   where k.id = any (p_leaves) and d.id = k.id and exists (select 1 from sluice.outcomes o where o.id = k.id and o.state in ('failed', 'cancelled'))
     and (k.class_id is null or k.priority <> p_priority or k.approved_by is not null or t.approval and not coalesce(k.policy ? 'approval', false));
  with again as (
    delete from sluice.outcomes o where o.id = any (p_leaves) and o.state in ('failed', 'cancelled') returning o.id, o.attempt
  )
  insert into sluice.queue (id, ready_at, parent_id, idx, class_id, state, rank, attempt, guarded)
  select d.id, p_now, d.parent_id, d.idx, d.class_id, 'waiting', sluice.rank_in_class_v1(d.class_id, d.priority, d.submitted_at), a.attempt,
         coalesce(d.policy ? 'approval', false)
    from again a join sluice.job_data d on d.id = a.id;
  get diagnostics v_count = row_count;
  return v_count;
end $$;
