-- Records the endings of attempts that did not succeed, and returns how many attempts ended. Idle workers are told of jobs that are ready again. The
-- caller has locked the claims, in a statement of its own. A job that has an outcome does not return to the queue: it is left out, so the caller
-- finds that too few have ended. If such a job is to end again, the primary key of the outcomes rejects the whole call.
--   failed     for good                       retry      after "delayMs", a failure counted
--   snoozed    after "delayMs", not counted   returned   at once, not counted: the worker is leaving
--   cancelled  as asked                      out_of_memory   at once, not counted: it comes back with a higher estimate.
--                                             The sixth time is a failure
--   unstarted  at once, as if it had not been assigned: the next attempt has the same number
create or replace function sluice.end_attempts_v1(p_worker bigint, p_endings jsonb) returns integer
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now     timestamptz := clock_timestamp();
  v_seqs    bigint[] := array(select e.seq from jsonb_to_recordset(p_endings) as e(seq bigint));
  v_ids     bigint[];
  v_parents bigint[];
  v_idxs    integer[];
  v_states  sluice.job_state[];
  v_ready   boolean;       -- some are ready again
begin
  with given as materialized (
    select e.id, e.seq, e.error, e.detail, e."delayMs", e."ranMs",
           case when e.ending = 'out_of_memory' and (select count(*) from sluice.attempts a where a.job_id = e.id and a.ending = e.ending) >= 5
                then 'failed' else e.ending end as ending
      from jsonb_to_recordset(p_endings) as e(id bigint, seq bigint, ending text, error text, detail jsonb, "delayMs" bigint,
                                              "ranMs" double precision)
  ), wanted as (
    select r.id, r.worker_id, r.ready_at, r.deadline_at, r.cancel_at, r.parent_id, r.idx, r.class_id, r.failures, r.losses, r.keyed, r.error,
           case when e.ending <> 'unstarted' then r.attempt else r.attempt - 1 end as attempt,
           -- One that was not started keeps the start of the attempt before.
           case when e.ending <> 'unstarted' then greatest(r.started_at, statement_timestamp() - make_interval(secs => e."ranMs" / 1000))
                when r.attempt > 1 then (select max(a.started_at) from sluice.attempts a where a.job_id = r.id) end as started_at,
           e.ending, e.detail, e.error as said, coalesce(e."delayMs", 0) as delay_ms,
           case
             -- A cancel that was asked for wins over going back to the queue.
             when e.ending = 'cancelled' or (r.cancel_at is not null and e.ending <> 'failed') then 'cancelled'
             when e.ending = 'failed' then 'failed'
             when coalesce(e."delayMs", 0) > 0 then 'scheduled'
             else 'ready' end::sluice.job_state as next
      from given e join sluice.claimed r on r.worker_id = p_worker and r.seq = e.seq and r.id = e.id
  ), judged as materialized (
    select w.* from wanted w where w.next > 'running' or not exists (select 1 from sluice.outcomes o where o.id = w.id offset 0)
  ), history as (
    insert into sluice.attempts (job_id, attempt, worker_id, started_at, ended_at, ending, error)
    select j.id, j.attempt, j.worker_id, j.started_at, v_now, case j.ending when 'retry' then 'failed' else j.ending end, j.said
      from judged j where j.next < 'running' and j.ending <> 'unstarted'
  ), thrown as (
    insert into sluice.attempt_errors (job_id, attempt, detail)
    select j.id, j.attempt, j.detail from judged j where j.detail is not null
    on conflict (job_id, attempt) do update set detail = excluded.detail
  ), back as (
    insert into sluice.queue (id, state, ready_at, started_at, deadline_at, parent_id, idx, class_id, rank, attempt, failures, losses, keyed, error)
    select j.id, j.next,
           case when j.ending in ('returned', 'unstarted', 'out_of_memory') then j.ready_at
                else v_now + make_interval(secs => j.delay_ms / 1000.0) end,
           j.started_at,
           -- It has started in time; from here on only retries decide. Not so where it, or its program, has not been started.
           case when j.ending = 'unstarted' or j.ending = 'returned' and j.said is not null then j.deadline_at end,
           -- Written out: sluice.rank_in_class_v1 would not be inlined.
           j.parent_id, j.idx, d.class_id, sluice.rank_v1(d.priority, l.ageing_ms, d.submitted_at),
           j.attempt, j.failures + case when j.ending = 'retry' then 1 else 0 end, j.losses, j.keyed,
           case when j.ending = 'retry' then j.said else j.error end
      from judged j join sluice.job_data d on d.id = j.id join sluice.classes c on c.id = d.class_id join sluice.lanes l on l.name = c.lane
     where j.next < 'running'
  ), kept as (
    insert into sluice.outcomes (id, state, finished_at, ready_at, started_at, cancel_at, worker_id, class_id, attempt, failures, losses, is_root,
                                 error)
    select j.id, j.next, v_now, j.ready_at, j.started_at, j.cancel_at, j.worker_id, j.class_id, j.attempt,
           j.failures + case when j.ending in ('failed', 'retry') then 1 else 0 end, j.losses, j.parent_id is null,
           case when j.cancel_at is not null and j.ending <> 'failed' then j.error   -- the reason given with the cancel
                else coalesce(j.said, j.error) end
      from judged j where j.next > 'running'
  ), freed as (
    delete from sluice.job_keys k where k.job_id = any (array(select j.id from judged j where j.keyed and j.next > 'running'))
  )
  select array_agg(j.id), array_agg(j.parent_id) filter (where j.final), array_agg(j.idx) filter (where j.final),
         array_agg(j.next) filter (where j.final), bool_or(j.next = 'ready')
    into v_ids, v_parents, v_idxs, v_states, v_ready
    from (select *, parent_id is not null and next > 'running' as final from judged) j;
  if v_ids is not null then
    perform sluice.remove_from_claims_v1(p_worker, v_seqs, v_ids);
  end if;
  if v_ready then
    perform sluice.hint_v1('ready', 'soon');
  end if;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_idxs, v_states);
  end if;
  return coalesce(cardinality(v_ids), 0);
end $$;
