-- Approves a job that waits for approval. False: it did not wait for one.
create or replace function sluice.approve_job_v1(p_id bigint, p_by text) returns boolean
language plpgsql
set jit = off set enable_seqscan = off
as $$
declare
  v_state  sluice.job_state;
  v_parent bigint;
begin
  update sluice.queue q
     set state = case when q.ready_at > clock_timestamp() then 'scheduled' else 'ready' end::sluice.job_state,
         ready_at = greatest(q.ready_at, clock_timestamp()),
         deadline_at = greatest(q.ready_at, clock_timestamp())
                       + make_interval(secs => (select d.deadline_ms from sluice.job_data d where d.id = q.id) / 1000.0)
   where q.id = p_id and q.state = 'awaiting_approval'
  returning q.state, q.parent_id into v_state, v_parent;
  if not found then
    return false;
  end if;
  update sluice.job_data d set approved_by = p_by where d.id = p_id;
  perform pg_notify('sluice', 'ready');
  if v_state = 'scheduled' and v_parent is null then
    -- Until its time it is scheduled, and no longer active.
    perform sluice.admit_v1(array[p_id], 'commit', false);
  end if;
  return true;
end $$;
