-- Handles a due tick of a schedule, and those that passed before it: submits its job, records the result, and moves on to the next tick, in one
-- transaction. A second session finds the schedule moved on, or its row locked, and does nothing. So with any number of processes, there is one
-- firing per tick. If its transaction is rolled back there is none, and a process tries again. There is one tick at a time, because the lock that
-- admits its job is a transaction's last.
--
-- The job may have to wait for another client's transaction that holds its key. The wait is short, because other schedules have ticks too.
create or replace function sluice.fire_schedule_v1(
  p_name text, p_version integer, p_next_at timestamptz, p_then timestamptz, p_tick timestamptz,
  p_passed integer, p_passed_since timestamptz, p_passed_last timestamptz, p_passed_why text
) returns table (tick_at timestamptz, job_id bigint, attached boolean, skipped text, reason text, overlapped integer)
language plpgsql
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_schedule sluice.schedules;
  v_busy     bigint;
begin
  select * into v_schedule from sluice.schedules s
   where s.name = p_name and s.version = p_version and s.next_at = p_next_at for no key update skip locked;
  if not found then
    return;
  end if;
  update sluice.schedules s set next_at = p_then where s.name = p_name;
  if p_passed > 0 then
    -- While a schedule is disabled its ticks go by in one row.
    update sluice.firings f set tick_at = p_passed_last, since = coalesce(f.since, f.tick_at), ticks = f.ticks + p_passed,
                                fired_at = clock_timestamp()
     where p_passed_why = 'disabled' and f.skipped = 'disabled'
       and f.id = (select max(g.id) from sluice.firings g where g.schedule = p_name and g.asked_by is null);
    if not found then
      insert into sluice.firings (schedule, tick_at, since, ticks, skipped, clock_steps)
        values (p_name, p_passed_last, nullif(p_passed_since, p_passed_last), p_passed, p_passed_why, v_schedule.clock_steps);
    end if;
    return query select p_passed_last, null::bigint, false, p_passed_why, null::text, 0;
  end if;
  if p_tick is null then
    return;
  end if;
  tick_at := p_tick;
  attached := false;
  if v_schedule.overlap = 'skip' then
    -- Of the latest hundred: more would have to have been started while overlapping was allowed.
    select j.id into v_busy
      from (select f.job_id from sluice.firings f where f.schedule = p_name and f.job_id is not null order by f.id desc limit 100) f
      join sluice.jobs j on j.id = f.job_id and j.state < 'completed' limit 1;
    if found then
      skipped := 'overlap';
      reason := 'job ' || v_busy || ' of this schedule has not ended';
    end if;
  end if;
  if skipped is null then
    begin
      select s.id, s.attached into job_id, attached from sluice.submit_v1(jsonb_build_array(
        v_schedule.options || jsonb_build_object('task', coalesce(v_schedule.task, v_schedule.workflow), 'input', v_schedule.input,
                                                 'by', v_schedule.owner)), 'soon') s;
      perform sluice.record_input_author_v1(job_id, n, v_schedule.owner)
        from unnest(array[v_schedule.input_by, v_schedule.task_by]) n where not attached;
    exception when others then
      -- What would be refused again is recorded; what was bad luck is undone as a whole, and tried again.
      if sqlstate !~ '^(SL|22|23)' then
        raise;
      end if;
      attached := false;
      skipped := case sqlstate when 'SL007' then 'ceiling' else 'refused' end;
      -- The job that has the key may be of somebody who is no business of the schedule's owner.
      reason := left(case sqlstate when 'SL004' then format('key %L of task %s is held by a job that has another input',
                       v_schedule.options ->> 'key', coalesce(v_schedule.task, v_schedule.workflow)) else sqlerrm end, 1000);
    end;
  end if;
  insert into sluice.firings (schedule, tick_at, job_id, attached, skipped, reason, clock_steps)
    values (p_name, p_tick, job_id, attached, skipped, reason, v_schedule.clock_steps);
  overlapped := v_schedule.overlapped + (skipped is not distinct from 'overlap')::integer;
  if overlapped > 0 then
    update sluice.schedules s set overlapped = case skipped when 'overlap' then v_schedule.overlapped + 1 else 0 end where s.name = p_name;
  end if;
  return next;
end $$;
