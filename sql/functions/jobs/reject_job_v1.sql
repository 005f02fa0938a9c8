-- Ends a job that waits for approval. False: it did not wait for one.
create or replace function sluice.reject_job_v1(p_id bigint, p_comment text, p_by text) returns boolean
language plpgsql
set jit = off set enable_seqscan = off
as $$
declare
  v_job record;
begin
  perform 1 from sluice.queue q where q.id = p_id and q.state = 'awaiting_approval' for update;
  if not found then
    return false;
  end if;
  update sluice.job_data d set approved_by = p_by where d.id = p_id;
  select e.* into v_job from sluice.end_queued_v1(array[p_id], 'cancelled', 'rejected: ' || p_comment) e;
  if v_job.parent_id is not null then
    perform sluice.children_ended_v1(array[v_job.parent_id], array[v_job.idx], array['cancelled'::sluice.job_state]);
  end if;
  perform pg_notify('sluice', 'done');
  return true;
end $$;
