-- Returns a finished job to the queue, if it is admitted, or makes it wait for approval; its history is kept. False: it has not finished, or is a
-- composite or part of a tree. Of two simultaneous calls, one finds its outcome. Another active job with its key rejects it with a unique violation
-- of job_keys.
create or replace function sluice.rerun_job_v1(p_id bigint) returns boolean
language plpgsql
set jit = off set enable_seqscan = off
as $$
declare
  v_now   timestamptz;
  v_due   timestamptz;
  v_ended sluice.outcomes;
  v_job   sluice.job_data;
  v_approval boolean;
begin
  delete from sluice.outcomes o using sluice.job_data d
   where d.id = p_id and d.composite is null and d.parent_id is null and o.id = d.id
  returning o.* into v_ended;
  if not found then
    return false;
  end if;
  select * into v_job from sluice.job_data d where d.id = p_id;
  -- A job that was approved asks again, and so does one whose task is no longer known: nothing says that it may run without.
  v_approval := coalesce((select t.approval from sluice.tasks t where t.name = v_job.task), true) or v_job.approved_by is not null;
  v_now := clock_timestamp();
  -- One that was cancelled before its time keeps that time.
  v_due := case when v_ended.started_at is null then greatest(v_ended.ready_at, v_now) else v_now end;
  if v_ended.attempt > 0 then
    insert into sluice.attempts (job_id, attempt, worker_id, started_at, ended_at, ending, error)
    values (p_id, v_ended.attempt, v_ended.worker_id, v_ended.started_at, v_ended.finished_at, 'rerun',
            v_ended.state::text || coalesce(': ' || v_ended.error, ''))
    on conflict do nothing;
  end if;
  -- One that failed goes on where it stopped; one that completed starts over.
  if v_ended.state = 'completed' then
    delete from sluice.steps s where s.job_id = p_id;
    delete from sluice.notes n where n.job_id = p_id;
  end if;
  if v_job.approved_by is not null then
    update sluice.job_data d set approved_by = null where d.id = p_id;
  end if;
  if v_job.key is not null then
    insert into sluice.job_keys (task, key, owner, job_id) values (v_job.task, v_job.key, coalesce(v_job.key_owner, ''), p_id);
  end if;
  insert into sluice.queue (id, ready_at, started_at, deadline_at, class_id, state, rank, attempt, keyed)
  values (p_id, v_due, v_ended.started_at, case when not v_approval then v_due + make_interval(secs => v_job.deadline_ms / 1000.0) end,
          v_job.class_id,
          case when v_approval then 'awaiting_approval' when v_due > v_now then 'scheduled' else 'ready' end::sluice.job_state,
          sluice.rank_in_class_v1(v_job.class_id, v_job.priority, v_job.submitted_at), v_ended.attempt, v_job.key is not null);
  perform pg_notify('sluice', 'ready');
  perform sluice.admit_v1(array[p_id], 'commit');
  return true;
end $$;
