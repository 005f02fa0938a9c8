-- Wakes composites that nothing would ever wake: none of their children is active and nothing is on its way. There should
-- never be one. A fan-out that is paused stands still because somebody wants it to.
create or replace function sluice.heal_composites_v1() returns integer
language plpgsql as $$
declare
  v_count integer;
begin
  insert into sluice.wakeups (job_id)
  select j.id from sluice.jobs j join sluice.composites c on c.job_id = j.id
   where j.composite is not null and j.state = 'running' and j.started_at < clock_timestamp() - interval '10 seconds'
     and (c.taken_until is null or c.taken_until < clock_timestamp() - interval '10 seconds')
     and not exists (select 1 from sluice.wakeups w where w.job_id = j.id and w.due_at <= clock_timestamp())
     and not exists (select 1 from sluice.jobs k where k.parent_id = j.id and k.superseded_at is null and k.state < 'completed' and k.state <> 'waiting')
     and not (c.window_size = 0 and exists (select 1 from sluice.jobs k where k.parent_id = j.id and k.state = 'waiting'));
  get diagnostics v_count = row_count;
  return v_count;
end $$;
