-- Carries out decisions about composites. An entry whose composite was taken by another process since is left out.
--   p_batch     [{job, version, wakeups, settle: {state, result, error}, close: {state, error}, chunk, made, rest, again}]
--   p_children  [{parent, idx, step, kind, task, node, input, state, error, deadlineMs, timeoutMs, policy, window, total, below,
--                first: [the same without parent]}]
--   p_chunks    [{parent, idx, first, items}] of the fan-outs among the children
-- Returns the composites for which it was carried out.
--
-- The settings below apply to its parts too, which nothing else calls.
create or replace function sluice.advance_v1(p_batch jsonb, p_children jsonb, p_chunks jsonb) returns setof bigint
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now   timestamptz := clock_timestamp();
  v_jobs  bigint[];
  v_woken boolean := false;   -- a composite is to be woken
begin
  select array_agg(k.job_id) into v_jobs from (
    select c.job_id from sluice.composites c
      join jsonb_to_recordset(p_batch) as b(job bigint, version integer) on b.job = c.job_id and b.version = c.version
     order by c.job_id for no key update of c) k;
  if v_jobs is null then
    return;
  end if;

  with entries as materialized (
    select b.* from jsonb_to_recordset(p_batch) as b(job bigint, wakeups bigint[], close jsonb) where b.job = any (v_jobs)
  ), seen as (
    delete from sluice.wakeups w where w.id = any (array(select unnest(b.wakeups) from entries b))
    returning w.job_id, w.completed, w.failed, w.cancelled, w.dropped
  ), sums as (
    select s.job_id, sum(s.completed) as completed, sum(s.failed) as failed, sum(s.cancelled) as cancelled, sum(s.dropped) as dropped
      from seen s group by s.job_id
  )
  update sluice.composites c
     set taken_until = null, version = c.version + 1,
         completed = c.completed + coalesce(s.completed, 0), failed = c.failed + coalesce(s.failed, 0),
         cancelled = c.cancelled + coalesce(s.cancelled, 0), tokens = c.tokens - coalesce(s.dropped, 0),
         closing = coalesce(c.closing, (b.close ->> 'state')::sluice.job_state),
         closing_error = case when c.closing is null then b.close ->> 'error' else c.closing_error end
    from entries b left join sums s on s.job_id = b.job
   where c.job_id = b.job;

  if jsonb_array_length(p_children) > 0 then
    v_woken := sluice.make_children_v1(v_jobs, p_children, p_chunks, v_now);
  end if;

  with done as (
    delete from sluice.chunks k using jsonb_to_recordset(p_batch) as b(job bigint, chunk integer)
     where b.job = any (v_jobs) and k.job_id = b.job and k.first = b.chunk
  ), kept as (
    insert into sluice.chunks (job_id, first, items)
    select b.job, b.chunk + b.made, b.rest from jsonb_to_recordset(p_batch) as b(job bigint, chunk integer, made integer, rest jsonb)
     where b.job = any (v_jobs) and b.rest is not null
  )
  insert into sluice.wakeups (job_id)
  select b.job from jsonb_to_recordset(p_batch) as b(job bigint, again boolean) where b.job = any (v_jobs) and b.again;
  v_woken := v_woken or found;
  v_woken := sluice.start_or_stop_children_v1(v_jobs, v_now) or v_woken;
  if not sluice.settle_composites_v1(v_jobs, p_batch, v_now) and v_woken then
    perform sluice.hint_v1('wake', 'soon');
  end if;
  return query select unnest(v_jobs);
end $$;
