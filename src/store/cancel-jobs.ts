import { type Queryable, statement } from '../db/database.ts'
import type { JobState } from '../model/job.ts'

export interface CancelledJob {
  readonly id: string
  readonly before: JobState
  readonly after: JobState
}

const CANCEL = statement('cancel_jobs', 'select id, before, after from sluice.cancel_jobs_v1($1, $2)')

/** Cancels several jobs. Those that had ended are left alone and not answered. */
export async function cancelJobs(
  db: Queryable,
  ids: readonly string[],
  reason: string,
): Promise<CancelledJob[]> {
  return db.run<CancelledJob & Record<string, unknown>>(CANCEL, [ids, reason])
}
