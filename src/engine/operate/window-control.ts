import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { checkWhole } from '../../model/argument.ts'
import { isFinal } from '../../model/job.ts'
import { checkJobId } from '../../model/job-id.ts'
import { MAX_COUNT } from '../../model/limits.ts'
import { findChildren, type JobView } from '../../store/find-jobs.ts'
import { resizeWindow as resizeStoredWindow } from '../../store/resize-window.ts'
import { getJob } from './job-control.ts'

export interface WindowChange {
  readonly before: number
  readonly after: number
}

/**
 * Changes how many children of a running fan-out may be in flight. 0 pauses it.
 *
 * A larger window starts more of them at once. A smaller one stops none: ended children are not replaced until it
 * fits.
 *
 * @throws {SluiceError} `JOB_NOT_FOUND`; `ILLEGAL_TRANSITION` when it has ended; `NO_WINDOW` when it is not a fan-out
 * with
 *   `concurrency`.
 */
export async function resizeWindow(db: Queryable, id: string, size: number): Promise<WindowChange> {
  return changeWindow(db, id, checkWhole(size, 'size', 0, MAX_COUNT))
}

/**
 * Resumes a paused fan-out with its previous window. One that is not paused is unchanged.
 *
 * @throws {SluiceError} as `resizeWindow` does.
 */
export async function resumeWindow(db: Queryable, id: string): Promise<WindowChange> {
  return changeWindow(db, id, null)
}

async function changeWindow(db: Queryable, id: string, size: number | null): Promise<WindowChange> {
  const change = await resizeStoredWindow(db, checkJobId(id), size)
  if (change !== undefined) return change
  const job = await getJob(db, id)
  if (job.kind === 'fanout' && isFinal(job.state)) {
    throw new SluiceError('ILLEGAL_TRANSITION', `job ${id} is ${job.status}, so its window is closed`, {
      details: { jobId: id, status: job.status },
    })
  }
  throw new SluiceError('NO_WINDOW', await explain(db, job), { details: { jobId: id } })
}

async function explain(db: Queryable, job: JobView): Promise<string> {
  const { id } = job
  if (job.kind === null)
    return `job ${id} runs a task and has no window; the fan-out that contains it may have one`
  if (job.kind === 'fanout') {
    return job.state === 'waiting'
      ? `job ${id} has not started and has no window yet`
      : `job ${id} has no window: its step sets no concurrency, so all its children are in flight`
  }
  const children = await findChildren(db, id, { limit: 1000 })
  const fanOuts = children.filter(({ kind, state }) => kind === 'fanout' && !isFinal(state))
  const which = fanOuts.map((each) => `${each.step} is job ${each.id}`).reverse()
  return `job ${id} is a ${job.kind} and has no window; fan-outs have${which.length === 0 ? '' : `: ${which.join(', ')}`}`
}
