-- Every job as one row, wherever it is: in the queue, with a worker, or ended. A job that is assigned to a worker and has not started is ready. This
-- is the view for readers. The planner leaves out joins whose columns a query does not name, so reading what was submitted costs no more than the
-- one table.
--
-- To find jobs by state, worker or class, read sluice.queue, sluice.claimed or sluice.outcomes: no index covers these columns here.
create or replace view sluice.jobs as
select d.id, d.submitted_at,
       case when o.id is not null then o.ready_at when q.id is not null then q.ready_at
            when d.composite is null then r.ready_at else c.ready_at end as ready_at,
       case when o.id is not null then o.started_at when q.id is not null then q.started_at
            when d.composite is not null then c.started_at when not r.assigned then r.started_at end as started_at,
       o.finished_at,
       case when o.id is not null then o.deadline_at when q.id is not null then q.deadline_at else r.deadline_at end as deadline_at,
       case when o.id is not null then o.cancel_at when d.composite is null then r.cancel_at else c.cancel_at end as cancel_at,
       d.deadline_ms,
       coalesce(o.worker_id, r.worker_id) as worker_id,
       d.parent_id, d.root_id, d.class_id,
       -- What is assigned is found once for all rows of a query, and only if a leaf is with a worker: the subquery depends on no row.
       coalesce(o.state, q.state,
                case when d.composite is null and d.id in (select unnest(l.assigned) from sluice.claims l where l.assigned is not null)
                     then 'ready' else 'running' end::sluice.job_state) as state,
       d.composite, coalesce(q.rank, 0) as rank, d.priority,
       coalesce(o.attempt, q.attempt, r.attempt, c.attempt, 0) as attempt,
       d.idx,
       coalesce(o.failures, q.failures, r.failures, 0::smallint) as failures,
       coalesce(o.losses, q.losses, r.losses, 0::smallint) as losses,
       d.task, d.step, d.key, d.key_owner, d.tags, d.input,
       o.result,
       case when o.id is not null then o.error when q.id is not null then q.error
            when d.composite is null then r.error else c.cancel_error end as error,
       d.submitted_by, d.policy, d.superseded_at, d.trace, d.uses, d.chosen_by, d.approved_by
  from sluice.job_data d
  left join sluice.outcomes o on o.id = d.id
  left join sluice.queue q on q.id = d.id
  -- Only of a leaf that neither waits nor has ended are claims read: all of them, for each such job. Whoever reads several jobs asks
  -- sluice.jobs_by_id_v1, which reads them once. Aggregates without a group give one row, so the planner leaves the join out where nothing of it is
  -- asked for. With "group by" it does not, once the id is given as a value.
  left join lateral (
    select min(j.ready_at) as ready_at, min(j.started_at) as started_at, min(j.deadline_at) as deadline_at, min(j.cancel_at) as cancel_at,
           min(j.worker_id) as worker_id, min(j.attempt) as attempt, min(j.failures) as failures, min(j.losses) as losses, min(j.error) as error,
           bool_or(j.assigned) as assigned
      from (select l.worker_id, l.seq from sluice.claims l
             where o.id is null and q.id is null and d.composite is null and d.id = any (l.ids) limit 1) l
      join sluice.claimed j on j.worker_id = l.worker_id and j.seq = l.seq and j.id = d.id) r on true
  left join sluice.composites c on c.job_id = d.id;
