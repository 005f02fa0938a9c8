-- Stores jobs without looking at keys, in the order of the array, and returns their ids in that order. With the hint
-- 'none' it is part of something else, which sees to admission and audit.
--
-- Most jobs go to their task's lane: what concerns another one is looked up only for those that name it. With a join
-- for it, and a state cast from text, a thousand jobs took twice the time.
create or replace function sluice.insert_jobs_v1(p_jobs jsonb, p_hint text) returns setof bigint
language plpgsql
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now  timestamptz := clock_timestamp();
  v_name text;
  v_count bigint;
  -- Numbered before limits are looked for: sluice.tend_admission_v1 relies on it.
  v_xact xid8 := pg_current_xact_id();
  v_line boolean;
  v_more boolean;
  v_ids  bigint[];
begin
  if p_hint <> 'none' then
    v_line := sluice.leaves_line_v1(p_jobs);
    -- Where only some tasks have a limit, jobs of the others take the short way.
    select v_line or a.max_active is not null or a.max_per_owner is not null
           or a.limited and a.max_queued ?| array(select distinct g.task from jsonb_to_recordset(p_jobs) as g(task text))
           or a.scheduled_limit is not null and jsonb_path_exists(p_jobs, '$[*] ? (exists (@.runAt) || exists (@.delayMs))')
      into v_more from sluice.admission a;
    if v_more then
      -- Only where the ids are needed: to collect them is a tenth of the time of a single job.
      v_ids := array(select sluice.insert_jobs_v1(p_jobs, 'none'));
      if v_line then
        perform sluice.audit_submissions_v1(p_jobs, v_ids);
      end if;
      perform sluice.admit_v1(v_ids, p_hint);
      perform sluice.hint_v1(case jsonb_array_length(p_jobs) when 1 then 'one' else 'ready' end, p_hint);
      return query select unnest(v_ids);
      return;
    end if;
  end if;
  return query
  insert into sluice.jobs (task, class_id, key, key_owner, input, priority, rank, state, submitted_at, ready_at,
                           deadline_ms, deadline_at, tags, submitted_by, trace, uses)
  select g.task,
         case when p.own_lane then t.class_id else sluice.class_in_lane_v1(t.class_id, g.lane) end,
         g.key, case when g.key is not null and t.keys = 'owner' then coalesce(g."by", session_user::text) end, g.input, p.priority,
         case when p.own_lane then sluice.rank_v1(p.priority, t.ageing_ms, v_now)
              else (select sluice.rank_v1(p.priority, l.ageing_ms, v_now) from sluice.lanes l where l.name = sluice.live_lane_v1(g.lane)) end,
         case when t.approval then 'awaiting_approval'::sluice.job_state when p.due > v_now then 'scheduled'::sluice.job_state
              else 'ready'::sluice.job_state end,
         v_now, p.due, p.deadline_ms,
         case when not t.approval then p.due + make_interval(secs => p.deadline_ms / 1000.0) end,
         g.tags, coalesce(g."by", session_user::text), g.trace,
         case when t.refusal is not null or g.uses is not null then sluice.checked_uses_v1(t.name, t.refusal, g.uses) end
    from rows from (jsonb_to_recordset(p_jobs) as (task text, input jsonb, key text, priority integer, lane text, "runAt" timestamptz,
                                                   "delayMs" bigint, "deadlineMs" bigint, tags text[], "by" text, trace text,
                                                   uses jsonb))
         with ordinality as g(task, input, key, priority, lane, "runAt", "delayMs", "deadlineMs", tags, "by", trace, uses, ord)
    join (select t.*, l.ageing_ms from sluice.tasks t join sluice.lanes l on l.name = t.lane) t on t.name = g.task
   cross join lateral (select coalesce(g.priority, t.priority) as priority,
                              nullif(coalesce(g."deadlineMs", t.deadline_ms, (select a.deadline_ms from sluice.admission a)), 0) as deadline_ms,
                              greatest(v_now, g."runAt", v_now + make_interval(secs => g."delayMs" / 1000.0)) as due,
                              g.lane is null as own_lane) p
   order by g.ord   -- a join may turn the order round
  returning jobs.id;
  get diagnostics v_count = row_count;
  if v_count <> jsonb_array_length(p_jobs) then
    select g.task into v_name from jsonb_to_recordset(p_jobs) as g(task text)
     where not exists (select 1 from sluice.tasks t where t.name = g.task) limit 1;
    if exists (select 1 from sluice.workflows w where w.name = v_name) then
      raise exception '% is a workflow', quote_literal(v_name) using errcode = 'SL006', detail = v_name;
    end if;
    raise exception 'no task named %', coalesce(quote_literal(v_name), 'null') using errcode = 'SL002', detail = coalesce(v_name, '');
  end if;
  if p_hint <> 'none' then
    perform sluice.hint_v1(case jsonb_array_length(p_jobs) when 1 then 'one' else 'ready' end, p_hint);
  end if;
end $$;
