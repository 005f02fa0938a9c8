import { type Queryable, statement } from '../db/database.ts'
import type { JobState } from '../model/job.ts'

const CANCEL = statement('cancel_job', 'select sluice.cancel_job_v1($1, $2) as state')

/**
 * Ends a waiting job at once and asks one that a worker has to stop; a workflow with everything below it.
 *
 * @returns the state it is in now, or `undefined` when it had ended or does not exist.
 */
export async function cancelJob(db: Queryable, id: string, reason: string): Promise<JobState | undefined> {
  return (await db.run<{ state: JobState | null }>(CANCEL, [id, reason]))[0]!.state ?? undefined
}
