-- Adjusts stored times after the clock of the server has stepped back.
--
-- Times that were stored before the step then lie in the future, and whatever waits for them would wait for as long as the step. Processes that do
-- duties check the watch about once a second, so a time of its last check that is ahead of the clock shows a step and its size. From then on, leases
-- last a whole stale again, as after an outage.
--
-- What was stored as a delay is moved back by the step. What a person named stays: the first start of a job (runAt), ticks of schedules that name
-- hours. So do times that only make something last longer: start deadlines, time limits of workflows, sessions, retention. Schedules that run in
-- every hour continue: the duty that fires them compares clock_steps.
--
-- Returns by how many milliseconds the clock went back; null: by no more than a second.
create or replace function sluice.follow_clock_v1() returns bigint
language plpgsql as $$
declare
  v_now  timestamptz;
  v_step interval;
begin
  if not exists (select 1 from sluice.watch k where k.last_at > clock_timestamp() + interval '1 second') then
    return null;
  end if;
  -- One does it; whoever comes at the same time finds it done.
  perform 1 from sluice.generation g for no key update;
  perform 1 from sluice.watch k for no key update;
  v_now := clock_timestamp();
  v_step := (select k.last_at - v_now from sluice.watch k);
  if v_step <= interval '1 second' then
    return null;
  end if;
  update sluice.watch k set since = v_now, last_at = v_now, clock_steps = k.clock_steps + 1,
                            skip_before = case when k.skip_before > v_now then v_now else k.skip_before end;
  update sluice.generation g set noticed_at = least(g.noticed_at, v_now), wait_until = g.wait_until - v_step,
                                 skip_before = case when g.skip_before > v_now then v_now else g.skip_before end;
  -- What is locked is being written by the new clock.
  update sluice.workers w set seen_at = v_now
   where w.id in (select o.id from sluice.workers o where o.ended_at is null and o.seen_at > v_now for no key update skip locked);
  update sluice.holdings h set asked_at = v_now
   where (h.worker_id, h.lane) in (select o.worker_id, o.lane from sluice.holdings o where o.asked_at > v_now for no key update skip locked);
  update sluice.composites c set taken_until = c.taken_until - v_step
   where c.job_id in (select o.job_id from sluice.composites o where o.taken_until > v_now for no key update skip locked);
  -- Retries and snoozes. A job that has not started waits for a time that somebody named.
  update sluice.queue q set ready_at = greatest(v_now, q.ready_at - v_step)
   where q.id in (select o.id from sluice.queue o where o.state = 'scheduled' and o.ready_at > v_now and o.attempt > 0
                  for no key update skip locked);
  update sluice.queue q set ready_at = v_now
   where q.id in (select o.id from sluice.queue o where o.state = 'ready' and o.ready_at > v_now for no key update skip locked);
  update sluice.wakeups w set due_at = greatest(v_now, w.due_at - v_step)
   where w.id in (select o.id from sluice.wakeups o where o.due_at > v_now for no key update skip locked);
  update sluice.fleet_decisions d set taken_until = d.taken_until - v_step, arrive_by = d.arrive_by - v_step, stop_at = d.stop_at - v_step
   where d.id in (select o.id from sluice.fleet_decisions o where o.ended_at is null or o.stop_at > v_now for no key update skip locked);
  update sluice.priority_changes m set retry_at = m.retry_at - v_step
   where m.job_id in (select o.job_id from sluice.priority_changes o where o.retry_at > v_now for no key update skip locked);
  update sluice.withdrawals d set retry_at = d.retry_at - v_step
   where (d.worker_id, d.task) in (select o.worker_id, o.task from sluice.withdrawals o where o.retry_at > v_now for no key update skip locked);
  perform sluice.hint_v1('ready', 'soon');
  perform sluice.hint_v1('wake', 'soon');
  return (extract(epoch from v_step) * 1000)::bigint;
end $$;
