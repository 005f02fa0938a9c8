import type { Queryable } from '../../db/database.ts'
import { sqlState, translateError } from '../../db/sqlstate.ts'
import { SluiceError } from '../../errors.ts'
import { checkStorable, checkWhole, invalidArgument } from '../../model/argument.ts'
import { isFinal, type JobState, statusOf } from '../../model/job.ts'
import { checkJobId, isId } from '../../model/job-id.ts'
import { toStorableText } from '../../model/json.ts'
import { MAX_JOB_REASON } from '../../model/limits.ts'
import { TASK_FIELDS } from '../../model/task-fields.ts'
import { approveJob } from '../../store/approve-job.ts'
import { cancelJob } from '../../store/cancel-job.ts'
import { deleteJob } from '../../store/delete-job.ts'
import { findInputAuthors } from '../../store/find-input-authors.ts'
import { findJobs, type JobView } from '../../store/find-jobs.ts'
import { findOwners } from '../../store/find-owners.ts'
import { readLogs, type StoredLogLine } from '../../store/read-logs.ts'
import { rejectJob } from '../../store/reject-job.ts'
import { reprioritiseJobs } from '../../store/reprioritise-jobs.ts'
import { rerunJob } from '../../store/rerun-job.ts'

/** Texts given with a cancel or a rejection are cut to this length. */
const MAX_LISTED = 100_000

/** Log lines of a job after the line with id `after`, oldest first. */
export async function readJobLogs(
  db: Queryable,
  id: string,
  after: string,
  limit: number,
): Promise<StoredLogLine[]> {
  if (after !== '0' && !isId(after)) throw invalidArgument('after', after, 'the id of a log line, or "0"')
  return readLogs(db, checkJobId(id), after, checkWhole(limit, 'limit', 1, MAX_LISTED))
}

/** The job, or `JOB_NOT_FOUND`. */
export async function getJob(db: Queryable, id: string): Promise<JobView> {
  const [job] = await findJobs(db, [checkJobId(id)])
  if (job === undefined) throw jobNotFound(db, id)
  return job
}

/** Whose jobs these are, by their ids. Those that are gone are not in it. */
export async function ownersOf(
  db: Queryable,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string | null>> {
  return ids.length === 0 ? new Map() : findOwners(db, ids)
}

/**
 * Cancels a waiting job at once, or asks the worker that has it to stop it.
 *
 * @returns the resulting state: `cancelled`, or while it is being stopped `running`, or `ready` if it is assigned and
 * has not started.
 */
export async function cancel(db: Queryable, id: string, reason: string): Promise<JobState> {
  const state = await cancelJob(db, checkJobId(id), checkReason(reason, 'reason'))
  return state ?? (await rejectAction(db, id, 'cancelled', 'only a job that has not ended can be'))
}

/** What the audit says of a cancel: of what is still running, that it was asked to stop. */
export function cancelFacts(state: JobState, reason: string) {
  return { status: statusOf(state), ...(!isFinal(state) && { cancel: 'asked' }), reason }
}

/** Whether somebody chose what a job runs with, other than by submitting it: as editor of its schedule, or with the input of a retry. */
export async function isChosenBy(db: Queryable, id: string, name: string): Promise<boolean> {
  return (await findInputAuthors(db, checkJobId(id))).includes(name)
}

export async function approve(db: Queryable, id: string, by: string): Promise<void> {
  if (!(await approveJob(db, checkJobId(id), by)))
    await rejectAction(db, id, 'approved', 'only a job that awaits approval can be')
}

export async function reject(db: Queryable, id: string, comment: string, by: string): Promise<void> {
  if (!(await rejectJob(db, checkJobId(id), checkReason(comment, 'comment'), by))) {
    await rejectAction(db, id, 'rejected', 'only a job that awaits approval can be')
  }
}

/** Of a workflow: also of what is below it and has not started, and of what it makes later. */
export async function reprioritise(db: Queryable, id: string, priority: number): Promise<void> {
  const changed = await reprioritiseJobs(db, [checkJobId(id)], checkPriority(priority))
  if (changed.length === 0)
    await rejectAction(db, id, 'reprioritised', 'only a waiting job can be, or a workflow that has not ended')
}

export async function remove(db: Queryable, id: string): Promise<void> {
  if (await deleteJob(db, checkJobId(id))) return
  const { rootId, state } = await getJob(db, id)
  const rule =
    rootId !== null
      ? `it is part of job ${rootId}, which can be with everything below it`
      : isFinal(state)
        ? 'something below it has not ended yet'
        : 'only a finished job can be; cancel it first'
  await rejectAction(db, id, 'deleted', rule)
}

/** Returns an ended job to the queue. Its history is kept, and its failures count from zero again. */
export async function rerun(db: Queryable, id: string): Promise<void> {
  try {
    if (await rerunJob(db, checkJobId(id))) return
  } catch (error) {
    if (sqlState(error) !== '23505') throw translateError(error)
    // Without `jobId`, which would be the job that has the key: whose that is has not been looked up.
    throw new SluiceError(
      'KEY_CONFLICT',
      `job ${id} cannot run again, because another active job has its key`,
    )
  }
  await rejectAction(db, id, 'run again', 'only a finished job can be')
}

export function checkPriority(priority: unknown): number {
  const read = TASK_FIELDS.priority.read(priority)
  if (read === undefined) throw invalidArgument('priority', priority, TASK_FIELDS.priority.expected)
  return read
}

export function checkReason(text: unknown, name: string): string {
  return toStorableText(checkStorable(text, name, { min: 0 }), MAX_JOB_REASON)
}

async function rejectAction(db: Queryable, id: string, what: string, rule: string): Promise<never> {
  const job = await getJob(db, id)
  throw new SluiceError('ILLEGAL_TRANSITION', `job ${id} is ${job.status} and cannot be ${what}: ${rule}`, {
    details: { jobId: id, status: job.status },
  })
}

/** Names the database, because an unknown id is usually one of another database. */
export function jobNotFound({ address }: Queryable, id: string): SluiceError {
  const where = address === undefined ? '' : ` in ${address}`
  return new SluiceError('JOB_NOT_FOUND', `job ${id} does not exist${where}`, { details: { jobId: id } })
}
