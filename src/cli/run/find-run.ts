import type { Sluice } from '../../app/app.ts'
import { SluiceError } from '../../errors.ts'
import { ACTIVE_STATUSES } from '../../model/job.ts'
import type { JobView } from '../../store/find-jobs.ts'
import { HINT } from '../report-error.ts'

/** The reason with which an interrupted run is cancelled. */
export const INTERRUPTED = 'interrupted'

/** The newest runs of these workflows that have not ended, newest first. */
export async function unendedRuns(app: Sluice, workflows: readonly string[]): Promise<JobView[]> {
  const found = await Promise.all(
    workflows.map((task) => app.listJobs({ task, status: ACTIVE_STATUSES, limit: 10 })),
  )
  return found
    .flat()
    .filter(({ kind }) => kind === 'workflow')
    .sort(newestFirst)
}

/**
 * The run to resume: the one that was named, else the newest of these workflows that has not ended, else the last one if
 * it failed or was interrupted.
 *
 * A last run that somebody cancelled on purpose is resumed only by its id.
 *
 * @throws {SluiceError} `JOB_NOT_FOUND` when there is none; `ILLEGAL_TRANSITION` when the one named has completed;
 *   `INVALID_ARGUMENT` when it is no run of these workflows.
 */
export async function findRun(
  app: Sluice,
  workflows: readonly string[],
  id: string | undefined,
): Promise<JobView> {
  if (id !== undefined) return checkRun(await app.getJob(id), workflows)
  const [run] = await unendedRuns(app, workflows)
  if (run !== undefined) return run
  const ended = await Promise.all(workflows.map((task) => app.listJobs({ task, limit: 1 })))
  const last = ended.flat().sort(newestFirst)[0]
  if (last !== undefined && resumesUnnamed(last)) return last
  const what = workflows.length === 1 ? workflows[0] : workflows.join(' or ')
  throw new SluiceError('JOB_NOT_FOUND', `no run of ${what} can be resumed`, {
    details: { [HINT]: last === undefined ? 'it has never run here' : hintFor(last) },
  })
}

function resumesUnnamed({ status, error }: JobView): boolean {
  return status === 'failed' || (status === 'cancelled' && error === `cancelled: ${INTERRUPTED}`)
}

function hintFor({ id, status }: JobView): string {
  const ended = `the last one, job ${id}, is ${status}`
  return status === 'completed' ? ended : `${ended}; --resume ${id} continues it`
}

function checkRun(job: JobView, workflows: readonly string[]): JobView {
  if (job.kind !== 'workflow' || job.parentId !== null) {
    const root = job.rootId === null ? '' : `; it belongs to job ${job.rootId}`
    throw new SluiceError('INVALID_ARGUMENT', `--resume: job ${job.id} is no run of a workflow${root}`)
  }
  if (!workflows.includes(job.task)) {
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `--resume: job ${job.id} is a run of ${job.task}, and the file has ${workflows.join(', ')}`,
    )
  }
  if (job.state !== 'completed') return job
  throw new SluiceError('ILLEGAL_TRANSITION', `job ${job.id} has completed: there is nothing to resume`, {
    details: { jobId: job.id, status: job.status },
  })
}

function newestFirst(a: JobView, b: JobView): number {
  return BigInt(a.id) < BigInt(b.id) ? 1 : -1
}
