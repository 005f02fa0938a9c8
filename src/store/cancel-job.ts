import { type Queryable, statement } from '../db/database.ts'
import type { JobState } from '../model/job.ts'

// One statement, so that a claim or an ending at the same instant comes before or after it, never in between.
const CANCEL = statement(
  'cancel_job',
  `update sluice.jobs
      set state = case state when 'running' then state else 'cancelled' end,
          finished_at = case state when 'running' then null else clock_timestamp() end,
          cancel_at = coalesce(cancel_at, clock_timestamp()),
          error = case when cancel_at is null then 'cancelled: ' || $2 else error end
    where id = $1 and state < 'completed'
   returning state, pg_notify('sluice', case state when 'running' then 'cancel' else 'done' end)`,
)

/**
 * Ends a waiting job at once and asks a running one to stop.
 *
 * @returns the state it is in now, or `undefined` when it had ended or does not exist.
 */
export async function cancelJob(db: Queryable, id: string, reason: string): Promise<JobState | undefined> {
  return (await db.run<{ state: JobState }>(CANCEL, [id, reason]))[0]?.state
}
