-- Wakes a composite for the first time, and once more when its time is up. The caller sends the hint.
create or replace function sluice.start_composite_v1(p_id bigint) returns void
language plpgsql as $$
begin
  insert into sluice.wakeups (job_id, due_at)
  select p_id, clock_timestamp()
  union all
  select c.job_id, clock_timestamp() + make_interval(secs => c.timeout_ms / 1000.0) from sluice.composites c
   where c.job_id = p_id and c.timeout_ms is not null;
end $$;
