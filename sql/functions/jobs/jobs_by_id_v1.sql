-- The rows of the view sluice.jobs for these jobs, in no order. The view reads all claims for each running job; this function reads them once for all
-- of the jobs. A test compares the two.
--
-- The plans are pinned: one that was made while nothing waited would read the whole queue for every job.
create or replace function sluice.jobs_by_id_v1(p_ids bigint[]) returns setof sluice.jobs
language plpgsql stable rows 50
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  -- Leaves that neither wait nor have ended: they run, or are assigned.
  v_held bigint[] := array(
    select d.id from sluice.job_data d
     where d.id = any (p_ids) and d.composite is null and not exists (select 1 from sluice.outcomes o where o.id = d.id offset 0)
       and not exists (select 1 from sluice.queue q where q.id = d.id offset 0));
begin
  return query
  select j.* from sluice.jobs j where j.id = any (array(select unnest(p_ids) except select unnest(v_held)));
  if v_held <> '{}' then
    return query
    select d.id, d.submitted_at, r.ready_at, case when not r.assigned then r.started_at end, null::timestamptz, r.deadline_at, r.cancel_at,
           d.deadline_ms, r.worker_id,
           d.parent_id, d.root_id, d.class_id,
           case when r.assigned then 'ready' else 'running' end::sluice.job_state, d.composite, 0, d.priority, r.attempt, d.idx, r.failures, r.losses,
           d.task, d.step, d.key, d.key_owner, d.tags, d.input, null::jsonb, r.error, d.submitted_by, d.policy, d.superseded_at, d.trace,
           d.uses, d.chosen_by, d.approved_by
      from sluice.claims_of_v1(v_held) f
      join sluice.claimed r on r.worker_id = f.worker_id and r.seq = f.seq and r.id = f.id
      join sluice.job_data d on d.id = f.id;
  end if;
end $$;
