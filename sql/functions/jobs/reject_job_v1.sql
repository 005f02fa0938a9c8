-- Ends a job that waited for approval. False when it did not wait for one.
create or replace function sluice.reject_job_v1(p_id bigint, p_comment text, p_by text) returns boolean
language plpgsql as $$
declare
  v_job sluice.jobs;
begin
  update sluice.jobs j set state = 'cancelled', finished_at = clock_timestamp(), error = 'rejected: ' || p_comment, approved_by = p_by
   where j.id = p_id and j.state = 'awaiting_approval' returning j.* into v_job;
  if not found then
    return false;
  end if;
  if v_job.parent_id is not null then
    perform sluice.children_ended_v1(array[v_job.parent_id], array[v_job.idx], array[v_job.state]);
  end if;
  perform pg_notify('sluice', 'done');
  return true;
end $$;
