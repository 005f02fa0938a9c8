import { type Queryable, statement } from '../db/database.ts'

const APPROVE = statement(
  'approve_job',
  `update sluice.jobs
      set state = case when ready_at > clock_timestamp() then 'scheduled' else 'ready' end::sluice.job_state,
          ready_at = greatest(ready_at, clock_timestamp()),
          deadline_at = greatest(ready_at, clock_timestamp()) + make_interval(secs => deadline_ms / 1000.0),
          approved_by = $2
    where id = $1 and state = 'awaiting_approval'
   returning id, pg_notify('sluice', 'ready'),
             -- Until its time it is scheduled, and no longer active.
             case when state = 'scheduled' and parent_id is null then sluice.admit_v1(array[id], 'commit', false) end`,
)

/** Lets a job run that waited for approval. False when it did not wait for one. */
export async function approveJob(db: Queryable, id: string, by: string): Promise<boolean> {
  return (await db.run(APPROVE, [id, by])).length === 1
}
