-- A tree runs again in part. Everything that is to run again waits at first, and what is above it with it; only the root
-- runs. From there on each composite lets its children start when it starts itself, so that no window is exceeded, however
-- deep the failure was.
--
-- Puts a tree in motion again as somebody has planned it. Nothing happens, and no row is answered, when one of the
-- composites has moved since the plan was made.
--   p_composites  the root, and every composite with something below it that runs again, at p_versions
--   p_leaves      leaf jobs that run again
--   p_fanouts     those of the composites whose failed and cancelled leaf jobs all run again
--   p_superseded  jobs that stay as they are, for the history: their steps will be decided anew
--   p_child       a child to be put in a place that has become free, as sluice.advance_v1 takes it; or null
create or replace function sluice.retry_tree_v1(p_root bigint, p_composites bigint[], p_versions integer[], p_leaves bigint[], p_fanouts bigint[],
                                     p_superseded bigint[], p_child jsonb)
returns table (jobs integer, superseded integer)
language plpgsql as $$
#variable_conflict use_column
declare
  v_now    timestamptz := clock_timestamp();
  v_due    timestamptz;
  v_count  integer;
  v_leaves bigint[];
  v_priority integer;
begin
  select count(*) into v_count from (
    select 1 from unnest(p_composites, p_versions) g(id, version)
      join sluice.composites c on c.job_id = g.id and c.version = g.version
     order by c.job_id for no key update of c) locked;
  if v_count <> cardinality(p_composites) then
    return;
  end if;
  -- Whoever deletes a tree begins with the job of its root, and would then wait for what is locked here.
  -- A workflow that was cancelled before its time keeps that time.
  select case when j.started_at is null then greatest(j.ready_at, v_now) else v_now end, j.priority into v_due, v_priority
    from sluice.jobs j where j.id = p_root and j.state >= 'completed' for no key update skip locked;
  if not found then
    return;
  end if;
  -- What could not be rendered, or has a task that is still unknown, would only fail again.
  select p_leaves || coalesce(array_agg(j.id), '{}') into v_leaves from sluice.jobs j
   where j.parent_id = any (p_fanouts) and j.superseded_at is null and j.composite is null and j.state in ('failed', 'cancelled')
     and (j.state = 'cancelled' or j.attempt > 0 or j.error like 'capacity:%'
          or j.class_id is null and exists (select 1 from sluice.tasks t where t.name = j.task));
  perform 1 from sluice.jobs j where j.id = any (p_composites || v_leaves || p_superseded) order by j.id for no key update;

  insert into sluice.attempts (job_id, attempt, worker_id, started_at, ended_at, ending, error)
  select j.id, greatest(j.attempt, 1), j.worker_id, j.started_at, j.finished_at, 'rerun', j.state::text || coalesce(': ' || j.error, '')
    from sluice.jobs j
   where j.id = any (p_composites) or j.id = any (v_leaves) and j.attempt > 0
  on conflict do nothing;

  update sluice.jobs j set superseded_at = v_now where j.id = any (p_superseded) and j.superseded_at is null;
  get diagnostics superseded = row_count;

  update sluice.jobs j
     set state = 'waiting', class_id = coalesce(j.class_id, (select t.class_id from sluice.tasks t where t.name = j.task)),
         -- It may have been changed after they ended.
         priority = v_priority,
         rank = coalesce(sluice.rank_in_class_v1(coalesce(j.class_id, (select t.class_id from sluice.tasks t where t.name = j.task)),
                                                 v_priority, j.submitted_at), j.rank),
         -- What was approved is asked for again, and so is what has been guarded since.
         approved_by = null,
         policy = case when exists (select 1 from sluice.tasks t where t.name = j.task and t.approval)
                       then coalesce(j.policy, '{}') || '{"approval": true}' else j.policy end,
         ready_at = v_now, started_at = null, finished_at = null, deadline_at = null, cancel_at = null, worker_id = null,
         failures = 0, losses = 0, result = null, error = null
   where j.id = any (v_leaves) and j.state in ('failed', 'cancelled');
  get diagnostics jobs = row_count;

  update sluice.jobs j
     set state = case when j.id <> p_root then 'waiting'::sluice.job_state when v_due > v_now then 'scheduled'::sluice.job_state
                      else 'running'::sluice.job_state end,
         priority = v_priority, attempt = greatest(j.attempt, 1) + 1, ready_at = case when j.id = p_root then v_due else v_now end,
         started_at = case when j.id = p_root and v_due <= v_now then v_now end, finished_at = null,
         cancel_at = null, result = null, error = null
   where j.id = any (p_composites);

  -- The children are counted again: what wake-ups had still to tell is in their states.
  delete from sluice.wakeups w where w.job_id = any (p_composites);
  update sluice.composites c
     set taken_until = null, version = c.version + 1, tokens = 0, held = c.window_size is null, closing = null, closing_error = null,
         closed = false, total = case when c.total is not null then n.children + n.items end,
         completed = n.completed, failed = n.failed, cancelled = n.cancelled
    from (select p.id, coalesce(k.children, 0) as children, coalesce(k.completed, 0) as completed, coalesce(k.failed, 0) as failed,
                 coalesce(k.cancelled, 0) as cancelled,
                 (select coalesce(sum(jsonb_array_length(h.items)), 0) from sluice.chunks h where h.job_id = p.id) as items
            from unnest(p_composites) p(id)
           cross join lateral (
             select count(*) as children, count(*) filter (where j.state = 'completed') as completed,
                    count(*) filter (where j.state = 'failed') as failed, count(*) filter (where j.state = 'cancelled') as cancelled
               from sluice.jobs j where j.parent_id = p.id and j.superseded_at is null) k) n
   where c.job_id = n.id;
  if v_due <= v_now then
    perform sluice.start_composite_v1(p_root);
    perform sluice.hint_v1('wake', 'commit');
  end if;

  if p_child is not null then
    perform sluice.advance_v1(jsonb_build_array(jsonb_build_object('job', c.job_id, 'version', c.version)), jsonb_build_array(p_child), '[]')
       from sluice.composites c where c.job_id = (p_child ->> 'parent')::bigint;
  end if;
  perform sluice.admit_v1(array[p_root], 'commit');
  return next;
end $$;
