-- Stores jobs that differ only in their input, and returns their ids in the order of p_inputs. p_job is an object in the form of sluice.submit_v1,
-- without input and key. Its audit leaves one line for all of them.
--
-- Everything stored beside the input is computed once. For a thousand jobs, that takes two thirds of the time of sluice.insert_jobs_v1, which
-- computes it for each. It has the rights of its owner, as that function has.
create or replace function sluice.insert_alike_v1(p_job jsonb, p_inputs jsonb, p_hint text) returns bigint[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  -- Numbered before limits are looked for: sluice.maintain_ledger_v1 relies on it.
  v_xact xid8 := pg_current_xact_id();
  v_now  timestamptz := clock_timestamp();
  v_jobs jsonb := jsonb_build_array(p_job);
  v_line boolean;
  v_more boolean;
  v_ids  bigint[];
  r      record;
begin
  perform sluice.check_submitter_v1();
  if p_job ->> 'key' is not null then
    raise exception 'key: jobs that are stored by one bulk call cannot have a key. Submit this job by itself' using errcode = 'SL005', detail = 'key';
  end if;
  v_line := sluice.leaves_audit_entry_v1(v_jobs);
  select v_line or a.max_active is not null or a.max_per_owner is not null or a.limited and a.max_queued ? (p_job ->> 'task')
         or a.scheduled_limit is not null and p_job ?| array['runAt', 'delayMs']
    into v_more from sluice.admission a;
  select j.* into r from sluice.read_jobs_v1(v_jobs, v_now) j;
  if not found then
    perform sluice.store_jobs_v1(v_jobs);   -- it says what is wrong with the task
  end if;
  with stored as (
    insert into sluice.job_data (submitted_at, task, class_id, input, priority, deadline_ms, tags, submitted_by, trace, uses)
    -- No input is stored as no value.
    select v_now, r.task, r.class_id, nullif(i.input, 'null'), r.priority, r.deadline_ms, r.tags, r.owner, r.trace, r.uses
      from jsonb_array_elements(p_inputs) i(input)
    returning id
  ), queued as (
    insert into sluice.queue (id, class_id, rank, state, ready_at, deadline_at)
    select s.id, r.class_id, r.rank, r.state, r.due, r.deadline_at from stored s
  )
  select coalesce(array_agg(s.id), '{}') into v_ids from stored s;
  if v_more then
    if v_line then
      perform sluice.audit_submissions_v1(
        case when p_job ? 'audit' then jsonb_set(v_jobs, '{0,audit,tasks}', jsonb_build_array(r.task)) else v_jobs end, v_ids);
    end if;
    perform sluice.admit_v1(v_ids, p_hint);
  end if;
  perform sluice.hint_v1(case cardinality(v_ids) when 1 then 'one' else 'ready' end, p_hint);
  return v_ids;
end $$;
