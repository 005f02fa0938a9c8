-- Failures that are causes. Jobs that failed only because something below them did are left out, and so are jobs that a rerun has replaced.
create or replace function sluice.is_cause_v1(p_job sluice.jobs) returns boolean
language plpgsql stable as $$
begin
  if p_job.parent_id is not null and sluice.is_replaced_v1(p_job.superseded_at, p_job.root_id, p_job.parent_id) then
    return false;
  elsif p_job.composite is null then
    return true;
  elsif p_job.composite = 'fanout' then
    return coalesce((select c.failed = 0 from sluice.composites c where c.job_id = p_job.id), true);
  end if;
  return not exists (select 1 from sluice.jobs k where k.parent_id = p_job.id and k.superseded_at is null and k.state = 'failed');
end $$;
