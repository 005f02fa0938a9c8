import type { Queryable } from '../../db/database.ts'
import { type TimelineEntry, timelineOf } from '../../model/job-timeline.ts'
import { listAttempts } from '../../store/list-attempts.ts'
import { listJobActs } from '../../store/list-job-acts.ts'
import { readCancelTime } from '../../store/read-cancel-time.ts'
import { getJob } from '../operate/job-control.ts'

/**
 * The life of a job, in the order in which it happened.
 *
 * @throws {SluiceError} `JOB_NOT_FOUND`.
 */
export async function readTimeline(db: Queryable, id: string): Promise<TimelineEntry[]> {
  const job = await getJob(db, id)
  const attempts = await listAttempts(db, job.id)
  const cancelAt = await readCancelTime(db, job.id)
  const acts = await listJobActs(db, job.id)
  return timelineOf({ ...job, cancelAt, isComposite: job.kind !== null }, attempts, acts)
}
