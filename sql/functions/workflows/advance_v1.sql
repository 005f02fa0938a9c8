-- Carries out what was decided about composites. An entry whose composite was taken by somebody else since is left out.
--   p_batch     [{job, version, wakeups, settle: {state, result, error}, close: {state, error}, chunk, made, rest, again}]
--   p_children  [{parent, idx, step, kind, task, node, input, state, error, deadlineMs, timeoutMs, policy, window, total, below}]
--   p_chunks    [{parent, idx, first, items}] of the fan-outs among the children
-- Answers which composites it was carried out for.
create or replace function sluice.advance_v1(p_batch jsonb, p_children jsonb, p_chunks jsonb) returns setof bigint
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
    ), made as materialized (
      -- Numbered in order: the ids of siblings follow their places.
      select nextval('sluice.job_data_id_seq') as id, n.* from (
        select g.parent as parent_id, coalesce(p.root_id, p.id) as root_id, g.idx, g.step, g.kind as composite, g.task, t.class_id, g.input,
               p.priority, sluice.rank_v1(p.priority, l.ageing_ms, v_now) as rank, s.state, d.ms as deadline_ms,
               case when s.state = 'failed' then coalesce(g.error, r.error, 'budget: it ' || (t.refusal ->> 'text'), 'internal: no task named ' || g.task) else g.error end as error,
               case when t.approval then coalesce(g.policy, '{}') || '{"approval": true}' else g.policy end as policy, p.submitted_by, p.trace
          from given g
          join sluice.job_data p on p.id = g.parent
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
         order by g.parent, g.idx) n
    ), data as (
      insert into sluice.job_data (id, parent_id, root_id, idx, step, composite, task, class_id, input, priority, submitted_at, deadline_ms, policy,
                                   submitted_by, trace)
      select m.id, m.parent_id, m.root_id, m.idx, m.step, m.composite, m.task, m.class_id, m.input, m.priority, v_now, m.deadline_ms, m.policy,
             m.submitted_by, m.trace
        from made m
    ), lined as (
      insert into sluice.queue (id, ready_at, deadline_at, parent_id, idx, class_id, state, rank, guarded)
      select m.id, v_now, case when m.state = 'ready' then v_now + make_interval(secs => m.deadline_ms / 1000.0) end, m.parent_id, m.idx,
             m.class_id, m.state, m.rank, coalesce(m.policy ? 'approval', false)
        from made m where m.state < 'running'
    ), over as (
      insert into sluice.outcomes (id, finished_at, ready_at, class_id, state, is_root, error)
      select m.id, v_now, v_now, m.class_id, m.state, false, m.error from made m where m.state >= 'completed'
    ), halves as (
      insert into sluice.composites (job_id, ready_at, started_at, graph, node, depth, window_size, total, timeout_ms)
      select m.id, v_now, case when m.state = 'running' then v_now end, c.graph, g.node, c.depth + 1, g."window", g.total, g."timeoutMs"
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
            or (c.window_size > c.tokens or c.held) and c.started_at is not null and not c.ended)
  loop
    if v_row.closing is null and v_row.held then
      v_ready := sluice.release_v1(v_row.job_id, -1, 1000) > 0;
      update sluice.composites c set held = exists (select 1 from sluice.queue k where k.parent_id = c.job_id and k.state = 'waiting')
       where c.job_id = v_row.job_id returning c.held into v_row.held;
      if v_row.held then
        insert into sluice.wakeups (job_id, due_at)
          values (v_row.job_id, case when v_ready then v_now else v_now + interval '20 milliseconds' end);
      end if;
      v_woken := true;
    elsif v_row.closing is null then
      update sluice.composites c set tokens = c.tokens + sluice.release_v1(v_row.job_id, -1, v_row.free) where c.job_id = v_row.job_id;
      if exists (select 1 from sluice.composites c where c.job_id = v_row.job_id and c.tokens < c.window_size
                    and exists (select 1 from sluice.queue q where q.parent_id = c.job_id and q.state = 'waiting')) then
        -- Somebody has children locked that could start: again in a moment.
        insert into sluice.wakeups (job_id, due_at) values (v_row.job_id, v_now + interval '20 milliseconds');
        v_woken := true;
      end if;
    elsif sluice.close_children_v1(v_row.job_id, case when v_row.closing_error like 'cancelled:%' then v_row.closing_error
                                                      else 'cancelled: ' || coalesce(v_row.closing_error, 'its group had its verdict') end) then
      update sluice.composites c set closed = true,
             total = case when c.total is not null
                          then (select count(*) from sluice.job_data j where j.parent_id = c.job_id and j.superseded_at is null) end
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
    update sluice.composites c set ended = true
      from jsonb_to_recordset(p_batch) as b(job bigint, settle jsonb)
     where b.settle is not null and c.job_id = b.job and c.job_id = any (v_jobs) and c.started_at is not null and not c.ended
    returning c.job_id, c.ready_at, c.started_at, c.cancel_at, c.attempt, b.settle
  ), placed as materialized (
    select e.*, (e.settle ->> 'state')::sluice.job_state as state, d.parent_id, d.idx, d.key
      from ended e join sluice.job_data d on d.id = e.job_id
  ), kept as (
    insert into sluice.outcomes (id, finished_at, ready_at, started_at, cancel_at, state, attempt, is_root, result, error)
    select p.job_id, v_now, p.ready_at, p.started_at, p.cancel_at, p.state, p.attempt, p.parent_id is null,
           nullif(p.settle -> 'result', 'null'), p.settle ->> 'error'
      from placed p
  ), freed as (
    delete from sluice.job_keys k where k.job_id = any (array(select p.job_id from placed p where p.key is not null))
  )
  select array_agg(e.parent_id) filter (where e.parent_id is not null), array_agg(e.idx) filter (where e.parent_id is not null),
         array_agg(e.state) filter (where e.parent_id is not null), bool_or(e.parent_id is null)
    into v_parents, v_places, v_states, v_ready from placed e;
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
