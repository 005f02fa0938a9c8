-- Ends a waiting job at once and asks a running one to stop; a composite with everything below it. Returns its state, null if it had ended or does
-- not exist. An assigned job is asked to stop too, and is ready until it has ended.
create or replace function sluice.cancel_job_v1(p_id bigint, p_reason text) returns sluice.job_state
language plpgsql
set jit = off set enable_seqscan = off
as $$
declare
  v_error     text := 'cancelled: ' || p_reason;
  v_composite boolean;
  v_job       record;
  v_state     sluice.job_state;
begin
  perform 1 from sluice.composites c where c.job_id = p_id for no key update;
  v_composite := found;
  -- A claim or an ending may move it from one table to another between two looks: then it is looked for again.
  for v_try in 1 .. 100 loop
    select e.* into v_job from sluice.end_queued_v1(array[p_id], 'cancelled', v_error, true) e;
    if found then
      if v_composite then
        perform sluice.cancel_held_v1(array[p_id], v_error);
      end if;
      if v_job.before = 'waiting' then
        -- It had no place in the window yet: there is none to pass on.
        insert into sluice.wakeups (job_id, cancelled) values (v_job.parent_id, 1);
        perform sluice.hint_v1('wake', 'soon');
      elsif v_job.parent_id is not null then
        perform sluice.children_ended_v1(array[v_job.parent_id], array[v_job.idx], array['cancelled'::sluice.job_state]);
      end if;
      perform pg_notify('sluice', 'done');
      return 'cancelled';
    end if;
    if v_composite then
      update sluice.composites c
         set cancel_error = case when c.cancel_at is null then v_error else c.cancel_error end,
             closing_error = case when c.closing is null then case when c.cancel_at is null then v_error else c.cancel_error end
                                  else c.closing_error end,
             closing = coalesce(c.closing, 'cancelled'), cancel_at = coalesce(c.cancel_at, clock_timestamp())
       where c.job_id = p_id and not c.ended and c.started_at is not null;
      if found then
        insert into sluice.wakeups (job_id) values (p_id);
        perform pg_notify('sluice', 'wake');
        return 'running';
      end if;
    else
      select s.state into v_state from sluice.stop_running_v1(array[p_id], v_error) s;
      if found then
        return v_state;
      end if;
    end if;
    if exists (select 1 from sluice.outcomes o where o.id = p_id) or not exists (select 1 from sluice.job_data d where d.id = p_id) then
      return null;
    end if;
  end loop;
  raise exception 'job % moved 100 times while it was to be cancelled', p_id using errcode = '40001';
end $$;
