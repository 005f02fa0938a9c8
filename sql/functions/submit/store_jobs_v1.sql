-- Stores jobs without looking at keys, limits or the audit, in the order of the array, and returns their ids in that order. It has the
-- rights of its caller: a role that may only submit calls sluice.submit_v1 or sluice.insert_jobs_v1, which check and record everything.
--
-- Most jobs go to their task's lane: what concerns another one is looked up only for those that name it. With a join
-- for it, and a state cast from text, a thousand jobs took twice the time.
create or replace function sluice.store_jobs_v1(p_jobs jsonb) returns setof bigint
language plpgsql
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now   timestamptz := clock_timestamp();
  v_name  text;
  v_count bigint;
begin
  return query
  with read as (
    select g.task,
           case when p.own_lane then t.class_id else sluice.class_in_lane_v1(t.class_id, g.lane) end as class_id,
           g.key, case when g.key is not null and t.keys = 'owner' then coalesce(g."by", session_user::text) end as key_owner, g.input, p.priority,
           case when p.own_lane then sluice.rank_v1(p.priority, t.ageing_ms, v_now)
                else (select sluice.rank_v1(p.priority, l.ageing_ms, v_now) from sluice.lanes l where l.name = sluice.live_lane_v1(g.lane)) end as rank,
           case when t.approval then 'awaiting_approval'::sluice.job_state when p.due > v_now then 'scheduled'::sluice.job_state
                else 'ready'::sluice.job_state end as state,
           p.due, p.deadline_ms,
           case when not t.approval then p.due + make_interval(secs => p.deadline_ms / 1000.0) end as deadline_at,
           g.tags, coalesce(g."by", session_user::text) as owner, g.trace,
           case when t.refusal is not null or g.uses is not null then sluice.checked_uses_v1(t.name, t.refusal, g.uses) end as uses
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
  ), given as materialized (
    select nextval('sluice.job_data_id_seq') as id, r.* from read r
  ), stored as (
    insert into sluice.job_data (id, submitted_at, task, class_id, key, key_owner, input, priority, deadline_ms, tags, submitted_by, trace, uses)
    select g.id, v_now, g.task, g.class_id, g.key, g.key_owner, g.input, g.priority, g.deadline_ms, g.tags, g.owner, g.trace, g.uses from given g
  ), named as (
    insert into sluice.job_keys (task, key, owner, job_id)
    select g.task, g.key, coalesce(g.key_owner, ''), g.id from given g where g.key is not null
  ), queued as (
    insert into sluice.queue (id, class_id, rank, state, ready_at, deadline_at, keyed)
    select g.id, g.class_id, g.rank, g.state, g.due, g.deadline_at, g.key is not null from given g
  )
  select g.id from given g;
  get diagnostics v_count = row_count;
  if v_count <> jsonb_array_length(p_jobs) then
    select g.task into v_name from jsonb_to_recordset(p_jobs) as g(task text)
     where not exists (select 1 from sluice.tasks t where t.name = g.task) limit 1;
    if exists (select 1 from sluice.workflows w where w.name = v_name) then
      raise exception '% is a workflow', quote_literal(v_name) using errcode = 'SL006', detail = v_name;
    end if;
    raise exception 'no task named %', coalesce(quote_literal(v_name), 'null') using errcode = 'SL002', detail = coalesce(v_name, '');
  end if;
end $$;
