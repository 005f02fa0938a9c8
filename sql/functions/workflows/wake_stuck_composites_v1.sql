-- Wakes composites that nothing else would wake: none of their children is active, and no wake-up is pending. There should never be one. A paused
-- fan-out does not count, because an operator paused it.
create or replace function sluice.wake_stuck_composites_v1() returns integer
language plpgsql
set jit = off set enable_seqscan = off
as $$
declare
  v_count integer;
begin
  insert into sluice.wakeups (job_id)
  select c.job_id from sluice.composites c
   where not c.ended and c.started_at < clock_timestamp() - interval '10 seconds'
     and (c.taken_until is null or c.taken_until < clock_timestamp() - interval '10 seconds')
     and not exists (select 1 from sluice.wakeups w where w.job_id = c.job_id and w.due_at <= clock_timestamp())
     and not exists (select 1 from sluice.job_data k where k.parent_id = c.job_id and k.superseded_at is null
                        -- One by one: joined, a plan made while a table was empty reads all of it for every child.
                        and not exists (select 1 from sluice.outcomes o where o.id = k.id offset 0)
                        and not exists (select 1 from sluice.queue q where q.id = k.id and q.state = 'waiting' offset 0))
     and not (c.window_size = 0 and exists (select 1 from sluice.queue q where q.parent_id = c.job_id and q.state = 'waiting'));
  get diagnostics v_count = row_count;
  return v_count;
end $$;
