import type { Queryable } from '../db/database.ts'
import { sqlState, translateError } from '../db/sqlstate.ts'
import { SluiceError } from '../errors.ts'
import type { JobState } from '../model/job.ts'
import { approveJob } from '../store/approve-job.ts'
import { cancelJob } from '../store/cancel-job.ts'
import { deleteJob } from '../store/delete-job.ts'
import { findJobs, type JobView } from '../store/find-jobs.ts'
import { rejectJob } from '../store/reject-job.ts'
import { reprioritiseJob } from '../store/reprioritise-job.ts'
import { rerunJob } from '../store/rerun-job.ts'

/** A job id is a positive whole number of up to 19 digits, as text. */
export function checkJobId(id: unknown): string {
  if (typeof id === 'string' && /^[1-9]\d{0,18}$/.test(id) && BigInt(id) <= 9_223_372_036_854_775_807n)
    return id
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `${JSON.stringify(id)} is no job id; a job id is a whole number, such as 42`,
  )
}

/** The job, or `JOB_NOT_FOUND`. */
export async function getJob(db: Queryable, id: string): Promise<JobView> {
  const [job] = await findJobs(db, { ids: [checkJobId(id)] })
  if (job === undefined) throw notFound(id)
  return job
}

/**
 * Ends a waiting job at once; asks a running one to stop.
 *
 * @returns the state it is in now: `cancelled`, or `running` while it is being stopped.
 */
export async function cancel(db: Queryable, id: string, reason: string): Promise<JobState> {
  const state = await cancelJob(db, checkJobId(id), reason)
  return state ?? (await refuse(db, id, 'cancelled', 'only a job that has not ended can be'))
}

export async function approve(db: Queryable, id: string, by: string): Promise<void> {
  if (!(await approveJob(db, checkJobId(id), by)))
    await refuse(db, id, 'approved', 'only a job that awaits approval can be')
}

export async function reject(db: Queryable, id: string, comment: string, by: string): Promise<void> {
  if (!(await rejectJob(db, checkJobId(id), comment, by))) {
    await refuse(db, id, 'rejected', 'only a job that awaits approval can be')
  }
}

export async function reprioritise(db: Queryable, id: string, priority: number): Promise<void> {
  if (!(await reprioritiseJob(db, checkJobId(id), checkPriority(priority)))) {
    await refuse(db, id, 'reprioritised', 'only a job that waits can be')
  }
}

export async function remove(db: Queryable, id: string): Promise<void> {
  if (!(await deleteJob(db, checkJobId(id))))
    await refuse(db, id, 'deleted', 'only a finished job can be; cancel it first')
}

/** Puts a finished job back in line. Its history is kept, its failures count from zero again. */
export async function rerun(db: Queryable, id: string): Promise<void> {
  try {
    if (await rerunJob(db, checkJobId(id))) return
  } catch (error) {
    if (sqlState(error) !== '23505') throw translateError(error)
    throw new SluiceError('KEY_CONFLICT', `job ${id} cannot run again: another active job has its key`, {
      details: { jobId: id },
    })
  }
  await refuse(db, id, 'run again', 'only a finished job can be')
}

export function checkPriority(priority: unknown): number {
  if (typeof priority === 'number' && Number.isInteger(priority) && Math.abs(priority) <= 1_000_000)
    return priority
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `priority: ${JSON.stringify(priority)} must be a whole number from -1000000 to 1000000`,
  )
}

async function refuse(db: Queryable, id: string, what: string, rule: string): Promise<never> {
  const job = await getJob(db, id)
  throw new SluiceError('ILLEGAL_TRANSITION', `job ${id} is ${job.status} and cannot be ${what}: ${rule}`, {
    details: { jobId: id, status: job.status },
  })
}

function notFound(id: string): SluiceError {
  return new SluiceError('JOB_NOT_FOUND', `there is no job ${id}`, { details: { jobId: id } })
}
