-- Submitting. SQLSTATEs of Sluice: SL001 fenced, SL002 unknown task, SL003 unknown lane, SL004 key conflict,
-- SL005 bad argument, SL006 a workflow where only tasks are stored, SL007 not admitted, SL008 more than any device has,
-- SL009 a worker more than its pool may have, SL010 a name that is taken, SL011 a lane that its task has fixed,
-- SL012 a schedule more than an owner may have.

-- A hint that there is something to do. Never carries anything that matters: polling finds it too. 'one' says of one job what
-- 'ready' says of any number: of many workers that are free not all need to look.
--
-- Commits that notify wait for each other, fsync included. So 'soon' lets one transaction at a time carry the
-- notification; the others skip it, and a worker that wakes looks again a few times shortly after. 'commit' is for a
-- transaction of the caller's, which may stay open: it must not keep others from notifying.
create function sluice.hint_v1(p_what text, p_when text) returns void
language plpgsql as $$
begin
  if p_when = 'commit' or (p_when = 'soon' and pg_try_advisory_xact_lock(1936485737, hashtext(p_what))) then
    perform pg_notify('sluice', p_what);
  end if;
end $$;

-- Smaller ranks start first. Waiting one period is worth one priority; since all jobs of a lane age alike, that is a
-- fixed rank at submission and needs no later update.
create function sluice.rank_v1(p_priority integer, p_ageing_ms integer, p_since timestamptz) returns integer
language sql stable   -- called immutable, it would not be inlined: the time makes its parts stable
return case when p_ageing_ms is null then 0 else floor(extract(epoch from p_since) * 1000 / p_ageing_ms)::integer end - p_priority;

-- The rank that a job of a class has now. For what comes back to the queue: the lane's ageing may have changed since.
create function sluice.rank_in_class_v1(p_class integer, p_priority integer, p_since timestamptz) returns integer
language sql stable
return (select sluice.rank_v1(p_priority, l.ageing_ms, p_since) from sluice.classes c join sluice.lanes l on l.name = c.lane
         where c.id = p_class);

-- The lane that is meant by a name: of a deleted one, where its jobs go. Null: there is none.
create function sluice.live_lane_v1(p_name text) returns text
language sql stable
return (select case when l.deleted_at is null then l.name else l.deleted_to end from sluice.lanes l where l.name = p_name);

-- The id of a class, made on first use.
--   p_budgeted  whether its task draws from budgets; null: as is known of the task
--   p_chosen    for jobs whose submission names the lane
create function sluice.intern_class_v1(p_task text, p_lane text, p_model text, p_requires jsonb, p_budgeted boolean default null,
                                       p_chosen boolean default false) returns integer
language plpgsql as $$
declare
  v_id       integer;
  v_budgeted boolean;
  v_lane     text := sluice.live_lane_v1(p_lane);
begin
  loop
    select c.id, c.budgeted into v_id, v_budgeted from sluice.classes c
     where c.task = p_task and c.lane = v_lane and c.model is not distinct from p_model and c.requires = p_requires and c.chosen = p_chosen;
    exit when found;
    if v_lane is null then
      raise exception 'there is no lane %; there are %', to_json(p_lane),
        (select string_agg(l.name, ', ' order by l.name) from (select k.name from sluice.lanes k where k.deleted_at is null order by k.name limit 20) l)
        using errcode = 'SL003', detail = p_lane;
    end if;
    insert into sluice.classes (task, lane, model, requires, budgeted, chosen)
      values (p_task, v_lane, p_model, p_requires,
              coalesce(p_budgeted, exists (select 1 from sluice.tasks t where t.name = p_task and t.uses is not null)), p_chosen)
      on conflict do nothing;
    perform pg_notify('sluice', 'classes');
  end loop;
  if v_budgeted <> p_budgeted then
    update sluice.classes c set budgeted = p_budgeted where c.id = v_id;
    perform pg_notify('sluice', 'classes');
  end if;
  return v_id;
end $$;

-- Before names are declared as tasks or as workflows: a name is one of them, and declaring it as the other is refused (SL010).
-- Every declaration takes this lock first, one at a time: two that declared the same name as both at once would not see each other's rows.
create function sluice.claim_names_v1(p_names text[], p_kind text) returns boolean
language plpgsql as $$
declare
  v_taken text;
begin
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  if p_kind = 'task' then
    select min(w.name) into v_taken from sluice.workflows w where w.name = any (p_names);
  else
    select min(t.name) into v_taken from sluice.tasks t where t.name = any (p_names);
  end if;
  if v_taken is not null then
    raise exception '% is the name of a %, so it cannot be a % too. Choose another name, or delete the other first: sluice tasks delete %',
      v_taken, case p_kind when 'task' then 'workflow' else 'task' end, p_kind, v_taken using errcode = 'SL010', detail = v_taken;
  end if;
  return true;
end $$;

-- The class of a task's jobs in a lane that their submissions name. Refused where the task fixes its lane: SL011.
create function sluice.class_in_lane_v1(p_class integer, p_lane text) returns integer
language plpgsql as $$
declare
  v_class sluice.classes;
begin
  select * into v_class from sluice.classes c where c.id = p_class;
  if exists (select 1 from sluice.tasks t where t.name = v_class.task and t.lane_fixed and sluice.live_lane_v1(p_lane) <> t.lane) then
    raise exception 'task % fixes its lane, %: submit without a lane, or let an operator move the task', to_json(v_class.task), to_json(v_class.lane)
      using errcode = 'SL011', detail = v_class.task;
  end if;
  return sluice.intern_class_v1(v_class.task, p_lane, v_class.model, v_class.requires, null, true);
end $$;

-- Whether jobs that are stored now leave a line in the audit: where they say who submits them, and always where the session is not
-- one of Sluice's own programs, which may write there themselves. These leave none for ticks of a schedule.
create function sluice.leaves_line_v1(p_jobs jsonb) returns boolean
language sql stable
return jsonb_path_exists(p_jobs, '$[*].audit') or not has_table_privilege(session_user, 'sluice.audit', 'insert');

-- Stores jobs without looking at keys, in the order of the array, and returns their ids in that order. With the hint
-- 'none' it is part of something else, which sees to admission and audit.
--
-- Most jobs go to their task's lane: what concerns another one is looked up only for those that name it. With a join
-- for it, and a state cast from text, a thousand jobs took twice the time.
create function sluice.insert_jobs_v1(p_jobs jsonb, p_hint text) returns setof bigint
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

-- Stores one job, of a task or a workflow.
create function sluice.insert_one_v1(p_job jsonb) returns bigint
language plpgsql as $$
begin
  if exists (select 1 from sluice.workflows w where w.name = p_job ->> 'task') then
    return sluice.insert_workflow_v1(p_job);
  end if;
  return (select i from sluice.insert_jobs_v1(jsonb_build_array(p_job), 'none') i);
end $$;

-- Stores one job with a key, or finds the active job that has it. Where the keys of its task are each owner's, those of others are not looked at.
create function sluice.submit_keyed_v1(p_job jsonb, out id bigint, out attached boolean)
language plpgsql as $$
declare
  v_input jsonb;
  v_holder text;
  v_owner text := coalesce((select coalesce(p_job ->> 'by', session_user::text) from sluice.tasks t
                             where t.name = p_job ->> 'task' and t.keys = 'owner'), '');
begin
  for i in 1..100 loop
    -- Looking first spares the common attach a dead row.
    select j.id, j.input, j.submitted_by into id, v_input, v_holder from sluice.jobs j
     where j.task = p_job ->> 'task' and j.key = p_job ->> 'key' and coalesce(j.key_owner, '') = v_owner and j.state < 'completed';
    if found then
      if v_input is distinct from nullif(p_job -> 'input', 'null') then   -- no input is stored as no value
        raise exception 'key % of task % is held by job % of %, which has another input',
          quote_literal(p_job ->> 'key'), p_job ->> 'task', id, v_holder using errcode = 'SL004', detail = id::text;
      end if;
      attached := true;
      return;
    end if;
    begin
      id := sluice.insert_one_v1(p_job);
      attached := false;
      return;
    exception when unique_violation then
      null;  -- somebody was faster: attach to theirs, or try again if it has ended since
    end;
  end loop;
  raise exception 'key % of task % changed hands 100 times', p_job ->> 'key', p_job ->> 'task' using errcode = '40001';
end $$;

-- Stores jobs, all or none. p_jobs is an array of objects: task, input, and where wanted key, priority, lane, runAt,
-- delayMs, deadlineMs (0: none, whatever the task says), tags, by, trace, uses (as sluice.jobs has it), resubmitOf, and audit: actor, keyId, requestId,
-- reason, and tasks where the first job carries the line of all of them. Where nobody is named in by, the
-- job belongs to the role of this session. The answer has one row per job, in the order given.
create function sluice.submit_v1(p_jobs jsonb, p_hint text) returns table (ord integer, id bigint, attached boolean)
language plpgsql as $$
declare
  v_workflows boolean := exists (select 1 from jsonb_array_elements(p_jobs) e join sluice.workflows w on w.name = e ->> 'task');
  v_ids       bigint[];
  v_attached  boolean[];
begin
  if v_workflows or jsonb_path_exists(p_jobs, '$[*].key ? (@ != null)') then
    -- Keys in one order for everybody, so that two such calls cannot wait for each other.
    with stored as materialized (
      select g.ord, s.id, s.attached
        from (select e.job, e.ord from jsonb_array_elements(p_jobs) with ordinality e(job, ord)
               order by e.job ->> 'task', e.job ->> 'key', e.ord) g
       cross join lateral sluice.submit_keyed_any_v1(g.job) s
    )
    select array_agg(s.id order by s.ord), array_agg(s.attached order by s.ord) into v_ids, v_attached from stored s;
  else
    v_ids := array(select sluice.insert_jobs_v1(p_jobs, 'none'));
  end if;
  if sluice.leaves_line_v1(p_jobs) then
    perform sluice.audit_submissions_v1(p_jobs, v_ids, v_attached);
  end if;
  if jsonb_path_exists(p_jobs, '$[*].resubmitOf') then
    insert into sluice.resubmissions (job_id, of_id)
    select v_ids[e.ord], (e.job ->> 'resubmitOf')::bigint from jsonb_array_elements(p_jobs) with ordinality e(job, ord)
     where e.job ->> 'resubmitOf' is not null and v_attached[e.ord] is not true;
  end if;
  -- After all of them, since nothing may be waited for under its lock. An active job that was found has been admitted.
  perform sluice.admit_v1(array(select u.id from unnest(v_ids, v_attached) u(id, attached) where u.attached is not true), p_hint);
  perform sluice.hint_v1('ready', p_hint);
  if v_workflows then
    perform sluice.hint_v1('wake', p_hint);
  end if;
  return query select u.ord::integer, u.id, coalesce(u.attached, false) from unnest(v_ids, v_attached) with ordinality u(id, attached, ord);
end $$;

create function sluice.submit_keyed_any_v1(p_job jsonb, out id bigint, out attached boolean)
language plpgsql as $$
begin
  if p_job ->> 'key' is null then
    id := sluice.insert_one_v1(p_job);
    attached := false;
  else
    select s.id, s.attached into id, attached from sluice.submit_keyed_v1(p_job) s;
  end if;
end $$;

-- For programs in other languages, inside their own transaction if they like:
--   select sluice.submit('resize', '{"url": "..."}', key => 'a', priority => 10);
-- Bad values are refused with SQLSTATE SL005.
create function sluice.submit(
  task text, input jsonb default null, key text default null, priority integer default null, lane text default null,
  run_at timestamptz default null, deadline interval default null, tags text[] default null, submitted_by text default null
) returns bigint
language plpgsql as $$
#variable_conflict use_variable
declare
  v_id bigint;
begin
  if priority not between -1000000 and 1000000 then
    raise exception 'priority: % must be from -1000000 to 1000000', priority using errcode = 'SL005', detail = 'priority';
  elsif length(key) not between 1 and 500 then
    raise exception 'key: must be a text of 1 to 500 characters' using errcode = 'SL005', detail = 'key';
  elsif not isfinite(run_at) or run_at > '9999-12-31' then
    raise exception 'run_at: must be a time before the year 10000' using errcode = 'SL005', detail = 'run_at';
  elsif not isfinite(deadline) or deadline < interval '0' or deadline > interval '100 years' then
    raise exception 'deadline: must be from 0, which is no deadline, to 100 years' using errcode = 'SL005', detail = 'deadline';
  elsif cardinality(tags) > 50 or exists (select 1 from unnest(tags) t where t is null or length(t) not between 1 and 100) then
    raise exception 'tags: must be at most 50 texts of 1 to 100 characters' using errcode = 'SL005', detail = 'tags';
  elsif length(submitted_by) not between 1 and 200 then
    raise exception 'submitted_by: must be a text of 1 to 200 characters' using errcode = 'SL005', detail = 'submitted_by';
  elsif length(input::text) > 16777216 then
    raise exception 'input: must not be longer than 16 MiB' using errcode = 'SL005', detail = 'input';
  elsif length(input::text) > 2000 and jsonb_path_exists(input, 'strict $.**{1000 to last} ? (@.type() == "array" || @.type() == "object")') then
    -- As deep as src/model/json.ts allows: programs that write it out again run out of stack beyond.
    raise exception 'input: must not be nested deeper than 1000 levels' using errcode = 'SL005', detail = 'input';
  end if;
  select s.id into v_id from sluice.submit_v1(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
    'task', task, 'key', key, 'priority', priority, 'lane', lane, 'runAt', run_at,
    'deadlineMs', ceil(extract(epoch from deadline) * 1000)::bigint, 'tags', to_jsonb(tags), 'by', submitted_by,
    'audit', jsonb_build_object('actor', session_user))) ||
    jsonb_build_object('input', input)), 'commit') s;
  return v_id;
end $$;
