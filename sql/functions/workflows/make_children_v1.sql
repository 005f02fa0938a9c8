-- Creates children of composites that the caller has locked: jobs that wait or are ready, composites that run, and those that end as they are
-- created. First steps of a composite are created with it, and then it is not woken. This does not apply if the parent has been cancelled meanwhile,
-- which stops its children.
--   p_children, p_chunks  in the form of sluice.advance_v1
-- Returns whether a composite is to be woken.
create or replace function sluice.make_children_v1(p_jobs bigint[], p_children jsonb, p_chunks jsonb, p_now timestamptz, out has_woken boolean)
language plpgsql as $$
declare
  v_ready boolean;
  v_first jsonb;   -- children of those that were made
begin
  with given as materialized (
    select g.*, g.first is not null and (select c.closing is null from sluice.composites c where c.job_id = g.parent) as begins
      from jsonb_to_recordset(p_children) as g(parent bigint, idx integer, step text, kind sluice.composite_kind, task text, node text,
             input jsonb, state sluice.job_state, error text, "deadlineMs" bigint, "timeoutMs" bigint, policy jsonb, "window" integer,
             total integer, first jsonb)
     where g.parent = any (p_jobs)
  ), refused as materialized (
    select r.* from sluice.refuse_composites_v1(p_children, p_jobs) r
  ), made as materialized (
    -- Numbered in order: the ids of siblings follow their places.
    select nextval('sluice.job_data_id_seq') as id, n.* from (
      select g.parent as parent_id, coalesce(p.root_id, p.id) as root_id, g.idx, g.step, g.kind as composite, g.task, t.class_id, g.input,
             p.priority, sluice.rank_v1(p.priority, l.ageing_ms, p_now) as rank, s.state, d.ms as deadline_ms,
             case when s.state = 'failed' then coalesce(g.error, r.error, 'budget: it ' || (t.refusal ->> 'text'),
                                                        'internal: no task named ' || g.task)
                  else g.error end as error,
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
    select m.id, m.parent_id, m.root_id, m.idx, m.step, m.composite, m.task, m.class_id, m.input, m.priority, p_now, m.deadline_ms, m.policy,
           m.submitted_by, m.trace
      from made m
  ), lined as (
    insert into sluice.queue (id, ready_at, deadline_at, parent_id, idx, class_id, state, rank, guarded)
    select m.id, p_now, case when m.state = 'ready' then p_now + make_interval(secs => m.deadline_ms / 1000.0) end, m.parent_id, m.idx,
           m.class_id, m.state, m.rank, coalesce(m.policy ? 'approval', false)
      from made m where m.state < 'running'
  ), over as (
    insert into sluice.outcomes (id, finished_at, ready_at, class_id, state, is_root, error)
    select m.id, p_now, p_now, m.class_id, m.state, false, m.error from made m where m.state >= 'completed'
  ), halves as (
    insert into sluice.composites (job_id, ready_at, started_at, graph, node, depth, window_size, total, timeout_ms)
    select m.id, p_now, case when m.state = 'running' then p_now end, c.graph, g.node, c.depth + 1, g."window", g.total, g."timeoutMs"
      from made m join given g on g.parent = m.parent_id and g.idx = m.idx join sluice.composites c on c.job_id = m.parent_id
     where m.composite is not null and m.state < 'completed'
    returning job_id, timeout_ms
  ), items as (
    insert into sluice.chunks (job_id, first, items)
    select m.id, k.first, k.items from jsonb_to_recordset(p_chunks) as k(parent bigint, idx integer, first integer, items jsonb)
      join made m on m.parent_id = k.parent and m.idx = k.idx and m.state < 'completed'
  ), woken as (
    insert into sluice.wakeups (job_id, due_at, completed, failed)
    select m.id, p_now, 0, 0 from made m join given g on g.parent = m.parent_id and g.idx = m.idx
     where m.composite is not null and m.state = 'running' and not g.begins
    union all
    select h.job_id, p_now + make_interval(secs => h.timeout_ms / 1000.0), 0, 0
      from halves h join made m on m.id = h.job_id where h.timeout_ms is not null and m.state = 'running'
    union all
    -- What ended as it was made. The parent of a step knows already, except when the task turned out to be unknown.
    select m.parent_id, p_now, 0, count(*)::integer from made m where m.state = 'failed' group by m.parent_id
    returning 1
  )
  select exists (select 1 from made m where m.state = 'ready'), exists (select 1 from woken),
         (select jsonb_agg(f.step || jsonb_build_object('parent', m.id))
            from made m join given g on g.parent = m.parent_id and g.idx = m.idx cross join lateral jsonb_array_elements(g.first) f(step)
           where m.state = 'running' and g.begins)
    into v_ready, has_woken, v_first;
  if v_ready then
    perform sluice.hint_v1('ready', 'soon');
  end if;
  if v_first is not null then
    has_woken := sluice.make_children_v1(array(select (f ->> 'parent')::bigint from jsonb_array_elements(v_first) f), v_first, '[]', p_now)
        or has_woken;
  end if;
end $$;
