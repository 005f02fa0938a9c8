-- The other endings of an attempt: everything but success. Returns how many jobs ended.
--   failed     for good                       retry      after "delayMs", a failure counted
--   snoozed    after "delayMs", not counted   returned   at once, not counted: the worker is leaving
--   cancelled  as asked                      out_of_memory   at once, not counted: it comes back with a higher estimate.
--                                             The sixth time is a failure
create or replace function sluice.end_attempts_v1(p_worker bigint, p_endings jsonb) returns integer
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now     timestamptz := clock_timestamp();
  v_ended   integer;
  v_parents bigint[];
  v_places  integer[];
  v_states  sluice.job_state[];
begin
  with given as materialized (
    select e.id, e.attempt, e.error, e.detail, e."delayMs",
           case when e.ending = 'out_of_memory' and (select count(*) from sluice.attempts a where a.job_id = e.id and a.ending = e.ending) >= 5
                then 'failed' else e.ending end as ending
      from jsonb_to_recordset(p_endings) as e(id bigint, attempt integer, ending text, error text, detail jsonb, "delayMs" bigint)
  ), locked as materialized (
    -- One by one: joined and ordered by id, a plan made while the table was small reads the whole primary key.
    select x.id from (select e.id, e.attempt from given e order by e.id) g
     cross join lateral (select j.id from sluice.jobs j
                          where j.id = g.id and j.attempt = g.attempt and j.worker_id = p_worker
                            and j.state is not distinct from 'running' for no key update) x
  ), history as (
    insert into sluice.attempts (job_id, attempt, worker_id, started_at, ended_at, ending, error)
    select j.id, j.attempt, j.worker_id, j.started_at, v_now, case g.ending when 'retry' then 'failed' else g.ending end, g.error
      from locked k join sluice.jobs j on j.id = k.id join given g on g.id = j.id
     where g.ending in ('retry', 'snoozed', 'returned', 'out_of_memory') and j.cancel_at is null
  ), thrown as (
    insert into sluice.attempt_errors (job_id, attempt, detail)
    select g.id, g.attempt, g.detail from locked k join given g on g.id = k.id where g.detail is not null
    on conflict (job_id, attempt) do update set detail = excluded.detail
  ), ended as (
    update sluice.jobs j
       set state = case
             -- A cancel that was asked for wins over going back to the queue.
             when g.ending = 'cancelled' or (j.cancel_at is not null and g.ending <> 'failed') then 'cancelled'
             when g.ending = 'failed' then 'failed'
             when coalesce(g."delayMs", 0) > 0 then 'scheduled'
             else 'ready' end::sluice.job_state,
           finished_at = case when g.ending in ('failed', 'cancelled') or j.cancel_at is not null then v_now end,
           -- Of one that has ended it stays told since when it could start.
           ready_at = case when g.ending in ('returned', 'out_of_memory', 'failed', 'cancelled') or j.cancel_at is not null then j.ready_at
                           else v_now + make_interval(secs => coalesce(g."delayMs", 0) / 1000.0) end,
           rank = case when g.ending in ('failed', 'cancelled') or j.cancel_at is not null then j.rank
                       else sluice.rank_in_class_v1(j.class_id, j.priority, j.submitted_at) end,
           failures = j.failures + case when g.ending in ('failed', 'retry') then 1 else 0 end,
           error = case when j.cancel_at is not null and g.ending <> 'failed' then j.error   -- as whoever cancelled it said
                        when g.ending in ('failed', 'retry', 'cancelled') then g.error else j.error end,
           worker_id = case when g.ending in ('failed', 'cancelled') then j.worker_id
                            when j.cancel_at is not null then j.worker_id end,
           -- It has started in time; from here on only retries decide. Not so where its program could not be started.
           deadline_at = case when g.ending = 'returned' and g.error is not null then j.deadline_at end
      from given g
     where j.id = any(array(select k.id from locked k)) and g.id = j.id
    returning j.parent_id, j.idx, j.state
  )
  select count(*)::integer, array_agg(e.parent_id) filter (where e.final), array_agg(e.idx) filter (where e.final),
         array_agg(e.state) filter (where e.final)
    into v_ended, v_parents, v_places, v_states
    from (select *, parent_id is not null and state >= 'completed' as final from ended) e;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_places, v_states);
  end if;
  return v_ended;
end $$;
