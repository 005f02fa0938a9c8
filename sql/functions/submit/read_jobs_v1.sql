-- What is stored for jobs, in the order of the array: the settings of their tasks and lanes, where a job does not specify others. A job of an unknown
-- task has no row. Nothing is stored, except that sluice.class_in_lane_v1 may add a class.
--
-- Call it in a FROM clause. It is declared stable so that the planner inlines it there; a thousand jobs are then read without a copy of each.
--
-- Most jobs go to their task's lane, so another lane is looked up only for those that name it. With a join for it, and a state cast from text, a
-- thousand jobs took twice the time.
create or replace function sluice.read_jobs_v1(p_jobs jsonb, p_now timestamptz) returns table (
  task text, class_id integer, key text, key_owner text, input jsonb, priority integer, rank integer, state sluice.job_state, due timestamptz,
  deadline_ms bigint, deadline_at timestamptz, tags text[], owner text, trace text, uses jsonb)
language sql stable
as $$
  select g.task,
         case when p.own_lane then t.class_id else sluice.class_in_lane_v1(t.class_id, g.lane) end as class_id,
         g.key, case when g.key is not null and t.keys = 'owner' then coalesce(g."by", session_user::text) end as key_owner, g.input, p.priority,
         case when p.own_lane then sluice.rank_v1(p.priority, t.ageing_ms, p_now)
              else (select sluice.rank_v1(p.priority, l.ageing_ms, p_now) from sluice.lanes l where l.name = sluice.live_lane_v1(g.lane)) end as rank,
         case when t.approval then 'awaiting_approval'::sluice.job_state when p.due > p_now then 'scheduled'::sluice.job_state
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
                              greatest(p_now, g."runAt", p_now + make_interval(secs => g."delayMs" / 1000.0)) as due,
                              g.lane is null as own_lane) p
   order by g.ord   -- a join may turn the order round
$$;
