-- Stores one job that specifies only its task, its input, its owner and its submitter, and returns its id. Most jobs that are submitted one by one
-- are like that, and this takes two thirds of the time of reading it out of JSON with a plan for many. It stores what sluice.insert_jobs_v1 stores,
-- and leaves everything else to that function: where a limit may matter, where the session may not write into the audit itself, where the task needs
-- approval or cannot start, and where there is no such task.
--   p_audit  the submitter, for the line in the audit: {actor, keyId, requestId, reason}; null: no line
--
-- It has the rights of its owner, as sluice.submit_v1 has.
create or replace function sluice.insert_job_v1(p_task text, p_input jsonb, p_owner text, p_audit jsonb, p_hint text) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  -- Numbered before limits are looked for: sluice.maintain_ledger_v1 relies on it.
  v_xact xid8 := pg_current_xact_id();
  v_now  timestamptz := clock_timestamp();
  v_id   bigint;
begin
  perform sluice.check_submitter_v1();
  with given as materialized (
    select nextval('sluice.job_data_id_seq') as id, t.class_id, t.priority, nullif(coalesce(t.deadline_ms, a.deadline_ms), 0) as deadline_ms,
           sluice.rank_v1(t.priority, l.ageing_ms, v_now) as rank
      -- In a plain join all lanes would be read and sorted.
      from sluice.tasks t cross join lateral (select l.ageing_ms from sluice.lanes l where l.name = t.lane offset 0) l cross join sluice.admission a
     where t.name = p_task and not t.approval and t.refusal is null and not sluice.leaves_audit_entry_v1('[]')
       and a.max_active is null and a.max_per_owner is null and not (a.limited and a.max_queued ? p_task)
  ), stored as (
    insert into sluice.job_data (id, submitted_at, task, class_id, input, priority, deadline_ms, submitted_by)
    -- No input is stored as no value.
    select g.id, v_now, p_task, g.class_id, nullif(p_input, 'null'), g.priority, g.deadline_ms, coalesce(p_owner, session_user::text) from given g
  ), queued as (
    insert into sluice.queue (id, class_id, rank, ready_at, deadline_at)
    select g.id, g.class_id, g.rank, v_now, v_now + make_interval(secs => g.deadline_ms / 1000.0) from given g
  ), audited as (
    insert into sluice.audit (actor, key_id, action, target, after, request_id, reason)
    select p_audit ->> 'actor', (p_audit ->> 'keyId')::bigint, 'job.submit', 'job ' || g.id,
           jsonb_strip_nulls(jsonb_build_object('task', p_task, 'by', nullif(p_owner, p_audit ->> 'actor'))),
           p_audit ->> 'requestId', p_audit ->> 'reason'
      from given g where p_audit is not null
  )
  select g.id into v_id from given g;
  if v_id is null then
    return (select i from sluice.insert_jobs_v1(jsonb_build_array(jsonb_build_object('task', p_task, 'input', p_input, 'by', p_owner)
              || case when p_audit is null then '{}' else jsonb_build_object('audit', p_audit) end), p_hint) i);
  end if;
  perform sluice.hint_v1('one', p_hint);
  return v_id;
end $$;
