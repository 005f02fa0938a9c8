-- Every job as one row, wherever it is: in the queue, running, or ended. This is what readers use. Joins whose columns a
-- query does not name are left out by the planner, so reading what was submitted costs no more than the one table.
--
-- To find jobs by state, worker or class, read sluice.queue, sluice.running or sluice.outcomes: no index covers these columns here.
create or replace view sluice.jobs as
select d.id, d.submitted_at,
       case when o.id is not null then o.ready_at when q.id is not null then q.ready_at
            when d.composite is null then r.ready_at else c.ready_at end as ready_at,
       case when o.id is not null then o.started_at when q.id is not null then q.started_at
            when d.composite is null then r.started_at else c.started_at end as started_at,
       o.finished_at,
       case when o.id is not null then o.deadline_at when q.id is not null then q.deadline_at else r.deadline_at end as deadline_at,
       case when o.id is not null then o.cancel_at when d.composite is null then r.cancel_at else c.cancel_at end as cancel_at,
       d.deadline_ms,
       coalesce(o.worker_id, r.worker_id) as worker_id,
       d.parent_id, d.root_id, d.class_id,
       coalesce(o.state, q.state, 'running'::sluice.job_state) as state,
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
  left join sluice.running r on r.id = d.id
  left join sluice.composites c on c.job_id = d.id;
