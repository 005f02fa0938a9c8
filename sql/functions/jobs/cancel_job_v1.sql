-- Ends a waiting job at once and asks a running one to stop; a composite with everything below it. Answers the state it is in
-- now, null when it had ended or does not exist.
create or replace function sluice.cancel_job_v1(p_id bigint, p_reason text) returns sluice.job_state
language plpgsql as $$
declare
  v_old sluice.job_state;
  v_job sluice.jobs;
begin
  perform 1 from sluice.composites c where c.job_id = p_id for no key update;
  -- Locked first, so that a claim or an ending at the same instant comes before or after it, never in between.
  select j.state into v_old from sluice.jobs j where j.id = p_id for no key update;
  update sluice.jobs j
     set state = case j.state when 'running' then j.state else 'cancelled' end,
         finished_at = case j.state when 'running' then null else clock_timestamp() end,
         cancel_at = coalesce(j.cancel_at, clock_timestamp()),
         error = case when j.cancel_at is null then 'cancelled: ' || p_reason else j.error end
   where j.id = p_id and j.state < 'completed'
  returning j.* into v_job;
  if not found then
    return null;
  end if;
  if v_job.state = 'cancelled' then
    if v_job.composite is not null then
      perform sluice.cancel_held_v1(array[p_id], v_job.error);
    end if;
    if v_old = 'waiting' then
      -- It had no place in the window yet: there is none to pass on.
      insert into sluice.wakeups (job_id, cancelled) values (v_job.parent_id, 1);
      perform sluice.hint_v1('wake', 'soon');
    elsif v_job.parent_id is not null then
      perform sluice.children_ended_v1(array[v_job.parent_id], array[v_job.idx], array[v_job.state]);
    end if;
    perform pg_notify('sluice', 'done');
  elsif v_job.composite is not null then
    update sluice.composites c set closing = 'cancelled', closing_error = v_job.error where c.job_id = p_id and c.closing is null;
    insert into sluice.wakeups (job_id) values (p_id);
    perform pg_notify('sluice', 'wake');
  else
    perform pg_notify('sluice', 'cancel');
  end if;
  return v_job.state;
end $$;
