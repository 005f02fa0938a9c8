-- Stores a run of a workflow. It is rejected if the tasks of its steps have not been published: a program that declares a workflow need not have its
-- tasks, and a step of an unknown task would fail when the run reaches it.
create or replace function sluice.insert_workflow_v1(p_job jsonb) returns bigint
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
  insert into sluice.job_data (task, composite, key, input, priority, submitted_at, deadline_ms, tags, submitted_by, trace)
  select w.name, 'workflow', p_job ->> 'key', nullif(p_job -> 'input', 'null'), coalesce((p_job ->> 'priority')::integer, w.priority), v_now,
         coalesce((p_job ->> 'deadlineMs')::bigint, w.deadline_ms),
         case when p_job ? 'tags' then array(select jsonb_array_elements_text(p_job -> 'tags')) end,
         coalesce(p_job ->> 'by', session_user::text),
         p_job ->> 'trace'
    from sluice.workflows w where w.name = p_job ->> 'task'
  returning id into v_id;
  if p_job ->> 'key' is not null then
    insert into sluice.job_keys (task, key, job_id) values (p_job ->> 'task', p_job ->> 'key', v_id);
  end if;
  insert into sluice.composites (job_id, ready_at, started_at, graph, node, timeout_ms)
  select v_id, v_due, case when v_due <= v_now then v_now end, w.graph, w.name, w.timeout_ms
    from sluice.workflows w where w.name = p_job ->> 'task';
  if v_due > v_now then
    insert into sluice.queue (id, ready_at, state, keyed) values (v_id, v_due, 'scheduled', p_job ->> 'key' is not null);
  else
    perform sluice.start_composite_v1(v_id);
  end if;
  return v_id;
end $$;
