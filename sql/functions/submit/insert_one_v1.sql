-- Stores one job, of a task or a workflow.
create or replace function sluice.insert_one_v1(p_job jsonb) returns bigint
language plpgsql as $$
begin
  if exists (select 1 from sluice.workflows w where w.name = p_job ->> 'task') then
    return sluice.insert_workflow_v1(p_job);
  end if;
  return (select i from sluice.store_jobs_v1(jsonb_build_array(p_job)) i);
end $$;
