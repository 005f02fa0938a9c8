import type { Sluice } from '../../app/app.ts'
import { SluiceError } from '../../errors.ts'
import { ACTIVE_STATUSES, isFinal } from '../../model/job.ts'
import type { JobView } from '../../store/find-jobs.ts'
import { HINT } from '../report-error.ts'

/** The newest runs of these workflows that have not ended, newest first. */
export async function unendedRuns(app: Sluice, workflows: readonly string[]): Promise<JobView[]> {
  const found = await Promise.all(
    workflows.map((task) => app.listJobs({ task, status: ACTIVE_STATUSES, limit: 10 })),
  )
  return found
    .flat()
    .filter(({ kind }) => kind === 'workflow')
    .sort((a, b) => (BigInt(a.id) < BigInt(b.id) ? 1 : -1))
}

/**
 * The run to go on with: the one that was named, else the last of these workflows that has not ended.
 *
 * One that was named may be cancelled, as Ctrl-C leaves it: it has to be retried before it goes on.
 *
 * @throws {SluiceError} `JOB_NOT_FOUND` when there is none; `ILLEGAL_TRANSITION` when the one named has completed or failed;
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
  const last = ended.flat().sort((a, b) => (BigInt(a.id) < BigInt(b.id) ? 1 : -1))[0]
  const what = workflows.length === 1 ? workflows[0] : workflows.join(' or ')
  throw new SluiceError('JOB_NOT_FOUND', `no run of ${what} was interrupted`, {
    details: { [HINT]: last === undefined ? 'it has never run here' : hintFor(last) },
  })
}

/** A run that has ended can be put back in line; it then has not ended any more. */
function hintFor(job: JobView): string {
  const ended = `the last one, job ${job.id}, is ${job.status}`
  return job.status === 'completed' ? ended : `${ended}; ${howToGoOn(job)}`
}

function howToGoOn({ id, status }: Pick<JobView, 'id' | 'status'>): string {
  return status === 'cancelled'
    ? `--resume ${id} goes on with it`
    : `sluice retry ${id} --failed runs again what failed, and --resume ${id} then goes on with it`
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
  if (!isFinal(job.state) || job.state === 'cancelled') return job
  const hint = job.state === 'failed' ? { [HINT]: howToGoOn(job) } : {}
  throw new SluiceError(
    'ILLEGAL_TRANSITION',
    `job ${job.id} is ${job.status}: there is nothing to go on with`,
    { details: { jobId: job.id, status: job.status, ...hint } },
  )
}
