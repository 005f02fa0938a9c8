-- Stores jobs without checking keys, limits or the audit, in the order of the array, and returns their ids in that order. It has the rights of its
-- caller: a role that may only submit calls sluice.submit_v1 or sluice.insert_jobs_v1, which check and record everything.
create or replace function sluice.store_jobs_v1(p_jobs jsonb) returns setof bigint
language plpgsql
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now   timestamptz := clock_timestamp();
  v_name  text;
  v_count bigint;
begin
  return query
  with given as materialized (
    select nextval('sluice.job_data_id_seq') as id, r.* from sluice.read_jobs_v1(p_jobs, v_now) r
  ), stored as (
    insert into sluice.job_data (id, submitted_at, task, class_id, key, key_owner, input, priority, deadline_ms, tags, submitted_by, trace, uses)
    select g.id, v_now, g.task, g.class_id, g.key, g.key_owner, g.input, g.priority, g.deadline_ms, g.tags, g.owner, g.trace, g.uses from given g
  ), named as (
    insert into sluice.job_keys (task, key, owner, job_id)
    select g.task, g.key, coalesce(g.key_owner, ''), g.id from given g where g.key is not null
  ), queued as (
    insert into sluice.queue (id, class_id, rank, state, ready_at, deadline_at, keyed)
    select g.id, g.class_id, g.rank, g.state, g.due, g.deadline_at, g.key is not null from given g
  )
  select g.id from given g;
  get diagnostics v_count = row_count;
  if v_count <> jsonb_array_length(p_jobs) then
    select g.task into v_name from jsonb_to_recordset(p_jobs) as g(task text)
     where not exists (select 1 from sluice.tasks t where t.name = g.task) limit 1;
    if exists (select 1 from sluice.workflows w where w.name = v_name) then
      raise exception '% is a workflow', quote_literal(v_name) using errcode = 'SL006', detail = v_name;
    end if;
    raise exception 'no task named %', coalesce(quote_literal(v_name), 'null') using errcode = 'SL002', detail = coalesce(v_name, '');
  end if;
end $$;
