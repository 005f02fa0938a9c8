import { type Queryable, statement } from '../db/database.ts'

const RERUN = statement(
  'rerun_job',
  `with ended as materialized (
     select * from sluice.jobs where id = $1 and state >= 'completed' and composite is null and parent_id is null for no key update
   ), history as (
     insert into sluice.attempts (job_id, attempt, worker_id, started_at, ended_at, ending, error)
     select id, attempt, worker_id, started_at, finished_at, 'rerun', state::text || coalesce(': ' || error, '') from ended
      where attempt > 0
     on conflict do nothing
   ), -- One that failed goes on where it stopped; one that completed begins anew.
   steps as (delete from sluice.steps s using ended e where s.job_id = e.id and e.state = 'completed'),
   notes as (delete from sluice.notes n using ended e where n.job_id = e.id and e.state = 'completed')
   update sluice.jobs j
      set state = case when g.guarded then 'awaiting_approval'
                       when d.due > clock_timestamp() then 'scheduled' else 'ready' end::sluice.job_state,
          approved_by = null,
          rank = coalesce(sluice.rank_in_class_v1(j.class_id, j.priority, j.submitted_at), j.rank),
          ready_at = d.due, finished_at = null, cancel_at = null, worker_id = null,
          failures = 0, losses = 0, result = null, error = null,
          deadline_at = case when not g.guarded then d.due + make_interval(secs => j.deadline_ms / 1000.0) end
     from ended e left join sluice.tasks t on t.name = e.task
          -- A job that was approved asks again, and so does one whose task is no longer known: nothing says that it may run without.
          cross join lateral (select coalesce(t.approval, true) or e.approved_by is not null as guarded) g
          -- One that was cancelled before its time keeps that time.
          cross join lateral (select case when e.started_at is null then greatest(e.ready_at, clock_timestamp()) else clock_timestamp() end as due) d
    where j.id = e.id
   returning j.id, pg_notify('sluice', 'ready'), sluice.admit_v1(array[j.id], 'commit')`,
)

/** Puts a finished job back in line, if it is admitted, or makes it wait for approval; what happened so far stays in its history, its steps only if it did not complete. False when it has not finished. */
export async function rerunJob(db: Queryable, id: string): Promise<boolean> {
  return (await db.run(RERUN, [id])).length === 1
}
