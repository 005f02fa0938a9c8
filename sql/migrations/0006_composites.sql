-- Composites: how a workflow is stored, moves on, runs again in part, and goes.
--
-- A composite's next steps are decided outside the database. Whoever wants to decide takes the composite for a moment
-- (take_composites_v1) and brings back what it decided (advance_v1), which counts only if nobody took it meanwhile. Nothing is
-- locked in between, and who dies in between is replaced when the moment is over.

-- Stores a run of a workflow. Refused where nobody has made known what its steps run: whoever declares a workflow need not
-- have its tasks, and a step of an unknown one would fail when the run comes to it.
create function sluice.insert_workflow_v1(p_job jsonb) returns bigint
language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_id  bigint;
  v_missing text;
  v_due timestamptz := greatest(v_now, (p_job ->> 'runAt')::timestamptz,
                                v_now + make_interval(secs => (p_job ->> 'delayMs')::bigint / 1000.0));
begin
  if p_job ->> 'lane' is not null then
    raise exception 'lane: a workflow takes no slot, so it is in no lane; its tasks are' using errcode = 'SL005', detail = 'lane';
  end if;
  select string_agg(quote_literal(n), ', ' order by n) into v_missing
    from sluice.workflows w join sluice.graphs g on g.hash = w.graph cross join unnest(g.tasks) n
   where w.name = p_job ->> 'task' and not exists (select 1 from sluice.tasks t where t.name = n);
  if v_missing is not null then
    raise exception 'workflow % runs what nobody has brought yet: no task named %; start a worker or program that has it',
      quote_literal(p_job ->> 'task'), v_missing using errcode = 'SL002', detail = p_job ->> 'task';
  end if;
  insert into sluice.jobs (task, composite, key, input, priority, state, submitted_at, ready_at, started_at, deadline_ms, tags, submitted_by,
                           trace)
  select w.name, 'workflow', p_job ->> 'key', nullif(p_job -> 'input', 'null'), coalesce((p_job ->> 'priority')::integer, w.priority),
         case when v_due > v_now then 'scheduled'::sluice.job_state else 'running'::sluice.job_state end, v_now, v_due,
         case when v_due <= v_now then v_now end, coalesce((p_job ->> 'deadlineMs')::bigint, w.deadline_ms),
         case when p_job ? 'tags' then array(select jsonb_array_elements_text(p_job -> 'tags')) end,
         coalesce(p_job ->> 'by', session_user::text),
         p_job ->> 'trace'
    from sluice.workflows w where w.name = p_job ->> 'task'
  returning id into v_id;
  insert into sluice.composites (job_id, graph, node, timeout_ms)
  select v_id, w.graph, w.name, w.timeout_ms from sluice.workflows w where w.name = p_job ->> 'task';
  if v_due <= v_now then
    perform sluice.start_composite_v1(v_id);
  end if;
  return v_id;
end $$;

-- Wakes a composite for the first time, and once more when its time is up. The hint is the caller's to send.
create function sluice.start_composite_v1(p_id bigint) returns void
language plpgsql as $$
begin
  insert into sluice.wakeups (job_id, due_at)
  select p_id, clock_timestamp()
  union all
  select c.job_id, clock_timestamp() + make_interval(secs => c.timeout_ms / 1000.0) from sluice.composites c
   where c.job_id = p_id and c.timeout_ms is not null;
end $$;

-- How a fan-out stands: what its row counts, and what wake-ups have still to tell it. Without a window everything that has not
-- ended is in flight. No row: it is no fan-out, or has not begun.
create function sluice.fanout_v1(p_id bigint)
returns table (total integer, completed integer, failed integer, cancelled integer, window_size integer, in_flight integer,
               window_before integer)
language sql stable as $$
  select c.total, (c.completed + w.completed)::integer, (c.failed + w.failed)::integer, (c.cancelled + w.cancelled)::integer, c.window_size,
         (case when c.window_size is not null then c.tokens - w.dropped
               else c.total - c.completed - c.failed - c.cancelled - w.completed - w.failed - w.cancelled end)::integer, c.window_before
    from sluice.composites c
   cross join lateral (
     select coalesce(sum(u.completed), 0) as completed, coalesce(sum(u.failed), 0) as failed,
            coalesce(sum(u.cancelled), 0) as cancelled, coalesce(sum(u.dropped), 0) as dropped
       from sluice.wakeups u where u.job_id = c.job_id) w
   where c.job_id = p_id and c.total is not null
$$;

-- Takes composites that were woken, for p_ms, and tells all there is to know about them. Children are [place, state]; of a
-- fan-out they are only counted.
create function sluice.take_composites_v1(p_limit integer, p_ms integer, p_taker uuid, p_bytes bigint)
returns table (job_id bigint, version integer, kind sluice.composite_kind, state sluice.job_state, graph text, node text, input jsonb,
               window_size integer, total integer, completed integer, failed integer, cancelled integer,
               closing sluice.job_state, closing_error text, closed boolean, timed_out boolean, chunk integer, chunk_items jsonb,
               children jsonb, wakeups bigint[])
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_ids bigint[];
begin
  select array_agg(distinct d.job_id) into v_ids from (
    select w.job_id from sluice.wakeups w join sluice.composites c on c.job_id = w.job_id
     where w.due_at <= statement_timestamp() and (c.taken_until is null or c.taken_until < statement_timestamp() or c.taken_by = p_taker)
     order by w.due_at, w.id limit p_limit) d;
  if v_ids is null then
    return;
  end if;
  -- No more than p_bytes at once, or one: who takes them has them all in memory. What takes little room on disk counts as if it were
  -- compressed as well as can be.
  if cardinality(v_ids) > 1 then
    select array_agg(s.id) into v_ids from (
      select z.id, sum(z.bytes) over (order by z.id) as upto, row_number() over (order by z.id) as place from (
        select j.id, case when pg_column_size(j.input) > 2048 then octet_length(j.input::text) else coalesce(pg_column_size(j.input), 0) * 256 end
                   + coalesce((select case when pg_column_size(k.items) > 2048 then octet_length(k.items::text) else pg_column_size(k.items) * 256 end
                                 from sluice.chunks k where k.job_id = j.id order by k.first limit 1), 0) as bytes
          from unnest(v_ids) v(id) join sluice.jobs j on j.id = v.id) z) s
     where s.place = 1 or s.upto <= p_bytes;
  end if;
  -- Taking is undone by time alone: nothing is lost when a crash forgets it.
  perform set_config('synchronous_commit', 'off', true);
  with taken as (
    update sluice.composites c set taken_until = clock_timestamp() + make_interval(secs => p_ms / 1000.0), taken_by = p_taker, version = c.version + 1
     where c.job_id = any (array(select k.job_id from sluice.composites k
                                  where k.job_id = any (v_ids) and (k.taken_until is null or k.taken_until < clock_timestamp() or k.taken_by = p_taker)
                                  order by k.job_id for no key update skip locked))
    returning c.job_id
  )
  select array_agg(t.job_id) into v_ids from taken t;
  -- In a statement of its own: one that had begun before somebody else's advance was committed would lock the counts as they
  -- are after it and read the wake-ups and children from before it, and count endings twice.
  return query
  select t.job_id, t.version, j.composite, j.state, t.graph, t.node, j.input, t.window_size, t.total,
         (t.completed + w.completed)::integer, (t.failed + w.failed)::integer, (t.cancelled + w.cancelled)::integer,
         t.closing, t.closing_error, t.closed,
         coalesce(j.started_at + make_interval(secs => t.timeout_ms / 1000.0) <= clock_timestamp(), false), h.first, h.items,
         case when j.composite <> 'fanout'
              then (select jsonb_agg(jsonb_build_array(k.idx, k.state)) from sluice.jobs k
                     where k.parent_id = j.id and k.superseded_at is null) end,
         w.ids
    from unnest(v_ids) v(id)
    join sluice.composites t on t.job_id = v.id
    join sluice.jobs j on j.id = t.job_id
   cross join lateral (
     select array_agg(u.id) as ids, coalesce(sum(u.completed), 0) as completed, coalesce(sum(u.failed), 0) as failed,
            coalesce(sum(u.cancelled), 0) as cancelled
       from sluice.wakeups u
      where u.job_id = t.job_id and (u.due_at <= clock_timestamp() or u.completed + u.failed + u.cancelled > 0)) w
    left join lateral (
      select k.first, k.items from sluice.chunks k where j.composite = 'fanout' and k.job_id = t.job_id order by k.first limit 1) h on true;
end $$;

-- Which of the new composites their tree has no room for, with why; the others are counted. What a composite will have below it counts
-- before any of it is made, so that a step that wants too much fails at once. The steps of the root itself do not count. Of
-- several composites, the small ones come first.
create function sluice.refuse_composites_v1(p_children jsonb, p_jobs bigint[]) returns table (parent bigint, idx integer, error text)
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_most  bigint := (select s.value from sluice.settings s where s.name = 'children_per_tree');
  v_depth bigint := (select s.value from sluice.settings s where s.name = 'tree_depth');
  v_roots bigint[];
begin
  select array_agg(distinct coalesce(p.root_id, p.id)) into v_roots
    from jsonb_to_recordset(p_children) as g(parent bigint, kind sluice.composite_kind, state sluice.job_state)
    join sluice.jobs p on p.id = g.parent
   where g.parent = any (p_jobs) and g.kind is not null and g.state < 'completed';
  if v_roots is null then
    return;
  end if;
  insert into sluice.trees (root_id, children) select r, 0 from unnest(v_roots) r order by r on conflict do nothing;
  perform 1 from sluice.trees t where t.root_id = any (v_roots) order by t.root_id for no key update;
  return query
  with given as materialized (
    select g.parent, g.idx, t.root_id, coalesce(g.below, 0) as jobs, c.depth + 1 as depth, t.children
      from jsonb_to_recordset(p_children) as g(parent bigint, idx integer, kind sluice.composite_kind, state sluice.job_state, below bigint)
      join sluice.jobs p on p.id = g.parent
      join sluice.composites c on c.job_id = g.parent
      join sluice.trees t on t.root_id = coalesce(p.root_id, p.id)
     where g.parent = any (p_jobs) and g.kind is not null and g.state < 'completed'
  ), summed as materialized (
    select g.*, g.children + sum(g.jobs) filter (where g.depth <= v_depth) over (partition by g.root_id order by g.jobs, g.parent, g.idx) as upto
      from given g
  ), counted as (
    update sluice.trees t set children = s.children
      from (select u.root_id, max(u.upto) as children from summed u where u.depth <= v_depth and u.upto <= v_most group by u.root_id) s
     where t.root_id = s.root_id
  )
  select s.parent, s.idx,
         case when s.depth > v_depth
              then format('tree: it would be %s levels below its root, and a tree may have %s: end the nesting earlier, or raise treeDepth', s.depth, v_depth)
              else format('tree: with the %s jobs of this step its tree would have %s, and it may have %s: make fewer, in batches for example, or raise childrenPerTree',
                          s.jobs, s.upto, v_most) end
    from summed s where s.depth > v_depth or s.upto > v_most;
end $$;

-- Carries out what was decided about composites. An entry whose composite was taken by somebody else since is left out.
--   p_batch     [{job, version, wakeups, settle: {state, result, error}, close: {state, error}, chunk, made, rest, again}]
--   p_children  [{parent, idx, step, kind, task, node, input, state, error, deadlineMs, timeoutMs, policy, window, total, below}]
--   p_chunks    [{parent, idx, first, items}] of the fan-outs among the children
-- Answers which composites it was carried out for.
create function sluice.advance_v1(p_batch jsonb, p_children jsonb, p_chunks jsonb) returns setof bigint
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now     timestamptz := clock_timestamp();
  v_jobs    bigint[];
  v_parents bigint[];
  v_places  integer[];
  v_states  sluice.job_state[];
  v_ready   boolean;
  v_woken   boolean := false;
  v_row     record;
begin
  select array_agg(k.job_id) into v_jobs from (
    select c.job_id from sluice.composites c
      join jsonb_to_recordset(p_batch) as b(job bigint, version integer) on b.job = c.job_id and b.version = c.version
     order by c.job_id for no key update of c) k;
  if v_jobs is null then
    return;
  end if;

  with entries as materialized (
    select b.* from jsonb_to_recordset(p_batch) as b(job bigint, wakeups bigint[], close jsonb) where b.job = any (v_jobs)
  ), seen as (
    delete from sluice.wakeups w where w.id = any (array(select unnest(b.wakeups) from entries b))
    returning w.job_id, w.completed, w.failed, w.cancelled, w.dropped
  ), sums as (
    select s.job_id, sum(s.completed) as completed, sum(s.failed) as failed, sum(s.cancelled) as cancelled, sum(s.dropped) as dropped
      from seen s group by s.job_id
  )
  update sluice.composites c
     set taken_until = null, version = c.version + 1,
         completed = c.completed + coalesce(s.completed, 0), failed = c.failed + coalesce(s.failed, 0),
         cancelled = c.cancelled + coalesce(s.cancelled, 0), tokens = c.tokens - coalesce(s.dropped, 0),
         closing = coalesce(c.closing, (b.close ->> 'state')::sluice.job_state),
         closing_error = case when c.closing is null then b.close ->> 'error' else c.closing_error end
    from entries b left join sums s on s.job_id = b.job
   where c.job_id = b.job;

  if jsonb_array_length(p_children) > 0 then
    with given as materialized (
      select g.* from jsonb_to_recordset(p_children) as g(parent bigint, idx integer, step text, kind sluice.composite_kind, task text, node text,
               input jsonb, state sluice.job_state, error text, "deadlineMs" bigint, "timeoutMs" bigint, policy jsonb, "window" integer,
               total integer)
       where g.parent = any (v_jobs)
    ), refused as materialized (
      select r.* from sluice.refuse_composites_v1(p_children, v_jobs) r
    ), made as (
      insert into sluice.jobs (parent_id, root_id, idx, step, composite, task, class_id, input, priority, rank, state, submitted_at, ready_at,
                               started_at, finished_at, deadline_ms, deadline_at, error, policy, submitted_by, trace)
      select g.parent, coalesce(p.root_id, p.id), g.idx, g.step, g.kind, g.task, t.class_id, g.input, p.priority,
             sluice.rank_v1(p.priority, l.ageing_ms, v_now), s.state, v_now, v_now,
             case when s.state = 'running' then v_now end, case when s.state >= 'completed' then v_now end,
             d.ms, case when s.state = 'ready' then v_now + make_interval(secs => d.ms / 1000.0) end,
             case when s.state = 'failed' then coalesce(g.error, r.error, 'budget: it ' || (t.refusal ->> 'text'), 'internal: no task named ' || g.task) else g.error end,
             case when t.approval then coalesce(g.policy, '{}') || '{"approval": true}' else g.policy end, p.submitted_by, p.trace
        from given g
        join sluice.jobs p on p.id = g.parent
        left join refused r on r.parent = g.parent and r.idx = g.idx
        left join sluice.tasks t on g.kind is null and t.name = g.task
        left join sluice.lanes l on l.name = t.lane
       cross join lateral (select coalesce(g."deadlineMs", t.deadline_ms, p.deadline_ms, (select a.deadline_ms from sluice.admission a)) as said) c
       -- A composite keeps that there is none, for what is made below it.
       cross join lateral (select case when g.kind is null then nullif(c.said, 0) else c.said end as ms) d
       cross join lateral (select case
           when g.state >= 'completed' then g.state
           when r.error is not null or g.kind is null and (t.name is null or t.refusal is not null) then 'failed'::sluice.job_state
           when g.state = 'waiting' then g.state
           when g.kind is not null then 'running'::sluice.job_state
           when t.approval then 'awaiting_approval'::sluice.job_state
           else 'ready'::sluice.job_state end as state) s
       order by g.parent, g.idx
      returning jobs.id, jobs.parent_id, jobs.idx, jobs.composite, jobs.state
    ), halves as (
      insert into sluice.composites (job_id, graph, node, depth, window_size, total, timeout_ms)
      select m.id, c.graph, g.node, c.depth + 1, g."window", g.total, g."timeoutMs"
        from made m join given g on g.parent = m.parent_id and g.idx = m.idx join sluice.composites c on c.job_id = m.parent_id
       where m.composite is not null and m.state < 'completed'
      returning job_id, timeout_ms
    ), items as (
      insert into sluice.chunks (job_id, first, items)
      select m.id, k.first, k.items from jsonb_to_recordset(p_chunks) as k(parent bigint, idx integer, first integer, items jsonb)
        join made m on m.parent_id = k.parent and m.idx = k.idx and m.state < 'completed'
    ), woken as (
      insert into sluice.wakeups (job_id, due_at, completed, failed)
      select m.id, v_now, 0, 0 from made m where m.composite is not null and m.state = 'running'
      union all
      select h.job_id, v_now + make_interval(secs => h.timeout_ms / 1000.0), 0, 0
        from halves h join made m on m.id = h.job_id where h.timeout_ms is not null and m.state = 'running'
      union all
      -- What ended as it was made. The parent of a step knows already, except when the task turned out to be unknown.
      select m.parent_id, v_now, 0, count(*)::integer from made m where m.state = 'failed' group by m.parent_id
      returning 1
    )
    select exists (select 1 from made m where m.state = 'ready'), exists (select 1 from woken) into v_ready, v_woken;
    if v_ready then
      perform sluice.hint_v1('ready', 'soon');
    end if;
  end if;

  with done as (
    delete from sluice.chunks k using jsonb_to_recordset(p_batch) as b(job bigint, chunk integer)
     where b.job = any (v_jobs) and k.job_id = b.job and k.first = b.chunk
  ), kept as (
    insert into sluice.chunks (job_id, first, items)
    select b.job, b.chunk + b.made, b.rest from jsonb_to_recordset(p_batch) as b(job bigint, chunk integer, made integer, rest jsonb)
     where b.job = any (v_jobs) and b.rest is not null
  )
  insert into sluice.wakeups (job_id)
  select b.job from jsonb_to_recordset(p_batch) as b(job bigint, again boolean) where b.job = any (v_jobs) and b.again;
  v_woken := v_woken or found;

  for v_row in
    select c.job_id, c.window_size - c.tokens as free, c.held, c.closing, c.closing_error
      from sluice.composites c
     where c.job_id = any (v_jobs) and not c.closed
       and (c.closing is not null
            or (c.window_size > c.tokens or c.held) and exists (select 1 from sluice.jobs j where j.id = c.job_id and j.state = 'running'))
  loop
    if v_row.closing is null and v_row.held then
      v_ready := sluice.release_v1(v_row.job_id, -1, 1000) > 0;
      update sluice.composites c set held = exists (select 1 from sluice.jobs k where k.parent_id = c.job_id and k.state = 'waiting')
       where c.job_id = v_row.job_id returning c.held into v_row.held;
      if v_row.held then
        insert into sluice.wakeups (job_id, due_at)
          values (v_row.job_id, case when v_ready then v_now else v_now + interval '20 milliseconds' end);
      end if;
      v_woken := true;
    elsif v_row.closing is null then
      update sluice.composites c set tokens = c.tokens + sluice.release_v1(v_row.job_id, -1, v_row.free) where c.job_id = v_row.job_id;
    elsif sluice.close_children_v1(v_row.job_id, case when v_row.closing_error like 'cancelled:%' then v_row.closing_error
                                                      else 'cancelled: ' || coalesce(v_row.closing_error, 'its group had its verdict') end) then
      update sluice.composites c set closed = true,
             total = case when c.total is not null
                          then (select count(*) from sluice.jobs j where j.parent_id = c.job_id and j.superseded_at is null) end
       where c.job_id = v_row.job_id;
      insert into sluice.wakeups (job_id) values (v_row.job_id);
      v_woken := true;
    else
      -- Somebody is starting or ending what could not be told: again in a moment.
      insert into sluice.wakeups (job_id, due_at) values (v_row.job_id, v_now + interval '20 milliseconds');
      v_woken := true;
    end if;
  end loop;

  with ended as (
    update sluice.jobs j
       set state = (b.settle ->> 'state')::sluice.job_state, result = nullif(b.settle -> 'result', 'null'), error = b.settle ->> 'error',
           finished_at = v_now
      from jsonb_to_recordset(p_batch) as b(job bigint, settle jsonb)
     where b.settle is not null and j.id = b.job and j.id = any (v_jobs) and j.state = 'running'
    returning j.parent_id, j.idx, j.state
  )
  select array_agg(e.parent_id) filter (where e.parent_id is not null), array_agg(e.idx) filter (where e.parent_id is not null),
         array_agg(e.state) filter (where e.parent_id is not null), bool_or(e.parent_id is null)
    into v_parents, v_places, v_states, v_ready from ended e;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_places, v_states);
  elsif v_woken then
    perform sluice.hint_v1('wake', 'soon');
  end if;
  if v_ready and exists (select 1 from sluice.waiters w where w.until > v_now) then
    perform pg_notify('sluice', 'done');
  end if;
  return query select unnest(v_jobs);
end $$;

-- Wakes composites that nothing would ever wake: none of their children is active and nothing is on its way. There should
-- never be one. A fan-out that is paused stands still because somebody wants it to.
create function sluice.heal_composites_v1() returns integer
language plpgsql as $$
declare
  v_count integer;
begin
  insert into sluice.wakeups (job_id)
  select j.id from sluice.jobs j join sluice.composites c on c.job_id = j.id
   where j.composite is not null and j.state = 'running' and j.started_at < clock_timestamp() - interval '10 seconds'
     and (c.taken_until is null or c.taken_until < clock_timestamp() - interval '10 seconds')
     and not exists (select 1 from sluice.wakeups w where w.job_id = j.id and w.due_at <= clock_timestamp())
     and not exists (select 1 from sluice.jobs k where k.parent_id = j.id and k.superseded_at is null and k.state < 'completed' and k.state <> 'waiting')
     and not (c.window_size = 0 and exists (select 1 from sluice.jobs k where k.parent_id = j.id and k.state = 'waiting'));
  get diagnostics v_count = row_count;
  return v_count;
end $$;

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
create function sluice.retry_tree_v1(p_root bigint, p_composites bigint[], p_versions integer[], p_leaves bigint[], p_fanouts bigint[],
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

-- Deletes finished jobs with everything below them. A tree in which something still runs, since its root ended early, is left
-- alone.
create function sluice.delete_trees_v1(p_roots bigint[]) returns integer
language plpgsql as $$
declare
  v_level   bigint[];
  v_all     bigint[] := '{}';
  v_busy    bigint[] := '{}';
  v_deleted integer;
begin
  if cardinality(p_roots) = 0 then
    return 0;   -- most looks of the prune duty
  end if;
  -- In everybody's order; a root may have been put in motion again since somebody found it finished.
  perform 1 from sluice.composites c where c.job_id = any (p_roots) order by c.job_id for no key update;
  v_level := array(select j.id from sluice.jobs j where j.id = any (p_roots) and j.state >= 'completed' and j.parent_id is null
                    order by j.id for no key update);
  while cardinality(v_level) > 0 loop
    v_all := v_all || v_level;
    -- Two questions, because there are two indexes on parents.
    with below as materialized (
      select k.id, k.root_id, k.state, k.composite from sluice.jobs k where k.parent_id = any (v_level) and k.superseded_at is null
      union all
      select k.id, k.root_id, k.state, k.composite from sluice.jobs k where k.parent_id = any (v_level) and k.superseded_at is not null
    )
    select array(select b.id from below b), v_busy || array(select distinct b.root_id from below b where b.state < 'completed')
      into v_level, v_busy;
  end loop;
  if cardinality(v_busy) > 0 then
    v_all := array(select j.id from sluice.jobs j where j.id = any (v_all) and coalesce(j.root_id, j.id) <> all (v_busy));
  end if;
  perform 1 from sluice.composites c where c.job_id = any (v_all) order by c.job_id for no key update;
  delete from sluice.wakeups w where w.job_id = any (v_all);
  delete from sluice.trees t where t.root_id = any (v_all);
  delete from sluice.jobs j where j.id = any (v_all);
  get diagnostics v_deleted = row_count;
  return v_deleted;
end $$;
