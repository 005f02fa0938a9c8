-- Ends the attempts of claims that no worker holds any more, as the tasks of their jobs specify: they return to the queue, or fail. The caller has
-- locked the claims. A job that has an outcome is left out. Whether an assigned job has started is not known: it counts no loss, and it is not
-- prefetched the next time, so that another loss would be certain. Because it may have started, it fails if its task must not run twice (onLost:
-- fail): it was assigned before the task said so.
create or replace function sluice.end_lost_claims_v1(p_worker bigint, p_seqs bigint[], p_why text,
                                                 out ids bigint[], out requeued integer, out failed integer, out cancelled integer)
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_parents bigint[];
  v_idxs    integer[];
  v_states  sluice.job_state[];
begin
  perform sluice.drop_ended_v1(array[p_worker]);
  with gone as (
    delete from sluice.claims c where c.worker_id = p_worker and c.seq = any (p_seqs)
  ), judged as materialized (
    select g.*, d.class_id as class_now, d.priority, d.submitted_at, clock_timestamp() as now,
           case when g.cancel_at is not null then 'cancelled'
                when g.assigned and t.on_lost is distinct from 'fail' then 'ready'
                when t.on_lost = 'fail' or g.losses + 1 > t.max_losses then 'failed' else 'ready' end::sluice.job_state as next,
           case when not g.assigned then 'lost: ' || p_why || ' during attempt ' || g.attempt
                when t.on_lost = 'fail' then 'lost: ' || p_why || ' after attempt ' || g.attempt
                    || ' had been assigned; it may have started' end as what,
           g.losses + case when g.assigned then 0 else 1 end as losses_now
      from sluice.claimed g join sluice.job_data d on d.id = g.id left join sluice.tasks t on t.name = d.task
     where g.worker_id = p_worker and g.seq = any (p_seqs)
  ), history as (
    insert into sluice.attempts (job_id, attempt, worker_id, started_at, ending, error)
    select j.id, j.attempt, j.worker_id, j.started_at, case when j.assigned then 'returned' else 'lost' end,
           coalesce(j.what, 'assigned, and not known to have started: ' || p_why)
      from judged j where j.next = 'ready'
  ), back as (
    -- A loss does not end its start deadline.
    insert into sluice.queue (id, state, ready_at, started_at, deadline_at, parent_id, idx, class_id, rank, attempt, failures, losses, keyed,
                              certain, error)
    select j.id, 'ready', j.now, j.started_at, j.deadline_at, j.parent_id, j.idx, j.class_now,
           sluice.rank_in_class_v1(j.class_now, j.priority, j.submitted_at), j.attempt, j.failures, j.losses_now, j.keyed,
           j.assigned, coalesce(j.what, j.error)
      from judged j where j.next = 'ready'
  ), kept as (
    insert into sluice.outcomes (id, state, finished_at, ready_at, started_at, deadline_at, cancel_at, worker_id, class_id, attempt, failures, losses,
                                 is_root, error)
    select j.id, j.next, j.now, j.ready_at, j.started_at, j.deadline_at, j.cancel_at, j.worker_id, j.class_id, j.attempt, j.failures, j.losses_now,
           j.parent_id is null, case j.next when 'cancelled' then j.error else j.what end
      from judged j where j.next > 'running'
  ), freed as (
    delete from sluice.job_keys k where k.job_id = any (array(select j.id from judged j where j.keyed and j.next > 'running'))
  )
  select array_agg(j.id), (count(*) filter (where j.next = 'ready'))::integer, (count(*) filter (where j.next = 'failed'))::integer,
         (count(*) filter (where j.next = 'cancelled'))::integer,
         array_agg(j.parent_id) filter (where j.final), array_agg(j.idx) filter (where j.final), array_agg(j.next) filter (where j.final)
    into ids, requeued, failed, cancelled, v_parents, v_idxs, v_states
    from (select *, parent_id is not null and next > 'running' as final from judged) j;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_idxs, v_states);
  end if;
end $$;
