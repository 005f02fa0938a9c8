-- Submits a schedule's job now, on request; its ticks are unchanged. No row: there is no such schedule. Rejections go to the caller, as with any
-- submission.
create or replace function sluice.fire_schedule_now_v1(p_name text, p_by text) returns table (job_id bigint, attached boolean)
language plpgsql as $$
#variable_conflict use_column
declare
  v_schedule sluice.schedules;
begin
  -- Until its firing is written nobody deletes it.
  select * into v_schedule from sluice.schedules s where s.name = p_name for key share;
  if not found then
    return;
  end if;
  select s.id, s.attached into job_id, attached from sluice.submit_v1(jsonb_build_array(
    v_schedule.options || jsonb_build_object('task', coalesce(v_schedule.task, v_schedule.workflow), 'input', v_schedule.input,
                                             'by', p_by)), 'soon') s;
  perform sluice.record_input_author_v1(job_id, n, p_by)
    from unnest(array[v_schedule.owner, v_schedule.input_by, v_schedule.task_by]) n where not attached;
  insert into sluice.firings (schedule, tick_at, job_id, attached, asked_by)
    values (p_name, clock_timestamp(), job_id, attached, p_by);
  return next;
end $$;
