-- Stores jobs, all or none. p_jobs is an array of objects: task and input, and optionally key, priority, lane, runAt, delayMs, deadlineMs (0: none,
-- whatever the task says), tags, by, trace, uses (in the form of sluice.jobs), resubmitOf, and audit: actor, keyId, requestId, reason, and tasks if
-- the first job carries the line of all of them. Without by, the job belongs to the role of this session. The answer has one row per job, in the
-- order given.
--
-- It has the rights of its owner: a role that submits needs no right on the tables that hold jobs, only the right to insert into sluice.jobs.
create or replace function sluice.submit_v1(p_jobs jsonb, p_hint text) returns table (ord integer, id bigint, attached boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_workflows boolean := exists (select 1 from jsonb_array_elements(p_jobs) e join sluice.workflows w on w.name = e ->> 'task');
  v_ids       bigint[];
  v_attached  boolean[];
begin
  perform sluice.check_submitter_v1();
  if v_workflows or jsonb_path_exists(p_jobs, '$[*].key ? (@ != null)') then
    -- Keys in one order for everybody, so that two such calls cannot wait for each other.
    with stored as materialized (
      select g.ord, s.id, s.attached
        from (select e.job, e.ord from jsonb_array_elements(p_jobs) with ordinality e(job, ord)
               order by e.job ->> 'task', e.job ->> 'key', e.job ->> 'by', e.ord) g
       cross join lateral sluice.submit_keyed_any_v1(g.job) s
    )
    select array_agg(s.id order by s.ord), array_agg(s.attached order by s.ord) into v_ids, v_attached from stored s;
  else
    v_ids := array(select sluice.store_jobs_v1(p_jobs));
  end if;
  if sluice.leaves_audit_entry_v1(p_jobs) then
    perform sluice.audit_submissions_v1(p_jobs, v_ids, v_attached);
  end if;
  if jsonb_path_exists(p_jobs, '$[*].resubmitOf') then
    insert into sluice.resubmissions (job_id, of_id)
    select v_ids[e.ord], (e.job ->> 'resubmitOf')::bigint from jsonb_array_elements(p_jobs) with ordinality e(job, ord)
     where e.job ->> 'resubmitOf' is not null and v_attached[e.ord] is not true;
  end if;
  -- After all of them, since nothing may be waited for under its lock. An active job that was found has been admitted.
  perform sluice.admit_v1(array(select u.id from unnest(v_ids, v_attached) u(id, attached) where u.attached is not true), p_hint);
  perform sluice.hint_v1('ready', p_hint);
  if v_workflows then
    perform sluice.hint_v1('wake', p_hint);
  end if;
  return query select u.ord::integer, u.id, coalesce(u.attached, false) from unnest(v_ids, v_attached) with ordinality u(id, attached, ord);
end $$;
