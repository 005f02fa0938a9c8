-- Runs a tree again in part, as planned by the caller. Everything that is to run again waits at first, together with what is above it; only the root
-- runs. From there on, each composite lets its children start when it starts itself, so that no window is exceeded, however deep the failure was.
--
-- Nothing happens, and no row is returned, if one of the composites has moved since the plan was made.
--   p_composites  the root, and every composite with something below it that runs again, at p_versions
--   p_leaves      leaf jobs that run again
--   p_fanouts     those of the composites whose failed and cancelled leaf jobs all run again
--   p_superseded  jobs that stay as they are, for the history: their steps will be decided again
--   p_child       a child for a place that has become free, in the form of sluice.advance_v1; or null
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
  -- A session that deletes a tree begins with the outcome of its root, and would then wait for what is locked here.
  -- A workflow that was cancelled before its time keeps that time.
  select case when o.started_at is null then greatest(o.ready_at, v_now) else v_now end, d.priority into v_due, v_priority
    from sluice.outcomes o join sluice.job_data d on d.id = o.id where o.id = p_root for update of o skip locked;
  if not found then
    return;
  end if;
  -- What could not be rendered, or has a task that is still unknown, would only fail again.
  select p_leaves || coalesce(array_agg(d.id), '{}') into v_leaves from sluice.job_data d join sluice.outcomes o on o.id = d.id
   where d.parent_id = any (p_fanouts) and d.superseded_at is null and d.composite is null and o.state in ('failed', 'cancelled')
     and (o.state = 'cancelled' or o.attempt > 0 or o.error like 'capacity:%'
          or d.class_id is null and exists (select 1 from sluice.tasks t where t.name = d.task));
  perform 1 from sluice.outcomes o where o.id = any (p_composites || v_leaves || p_superseded) order by o.id for update;

  insert into sluice.attempts (job_id, attempt, worker_id, started_at, ended_at, ending, error)
  select o.id, greatest(o.attempt, 1), o.worker_id, o.started_at, o.finished_at, 'rerun', o.state::text || coalesce(': ' || o.error, '')
    from sluice.outcomes o
   where o.id = any (p_composites) or o.id = any (v_leaves) and o.attempt > 0
  on conflict do nothing;

  update sluice.job_data d set superseded_at = v_now where d.id = any (p_superseded) and d.superseded_at is null;
  get diagnostics superseded = row_count;

  jobs := sluice.put_back_leaves_v1(v_leaves, v_priority, v_now);
  perform sluice.put_back_composites_v1(p_root, p_composites, v_priority, v_now, v_due);
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
