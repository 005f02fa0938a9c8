import type { Queryable } from '../db/database.ts'
import { countPasses, type Passes } from '../store/count-passes.ts'
import { type CompositeView, describeComposite } from '../store/describe-composite.ts'
import type { JobView } from '../store/find-jobs.ts'
import { lookAtQueues } from '../store/sample-queues.ts'
import { getJob } from './job-control.ts'

export interface Explanation {
  readonly job: JobView
  /** What the job waits for, in words; or that it does not wait. */
  readonly reason: string
  /** How often it was passed over since it became ready, and why. */
  readonly passedOver: readonly Passes[]
}

/** Says what a job waits for. */
export async function explain(db: Queryable, id: string): Promise<Explanation> {
  const job = await getJob(db, id)
  return { job, reason: await reasonOf(db, job), passedOver: await countPasses(db, id) }
}

async function reasonOf(db: Queryable, job: JobView): Promise<string> {
  switch (job.state) {
    case 'awaiting_approval':
      return 'it waits for somebody to approve it'
    case 'scheduled':
      return job.failures > 0
        ? `it failed (${job.error}) and is tried again at ${job.readyAt.toISOString()}`
        : `it is not due before ${job.readyAt.toISOString()}`
    case 'ready': {
      const samples = await lookAtQueues(db)
      const mine = samples.find((each) => each.task === job.task && each.lane === job.lane)
      if (mine?.reason != null) return mine.reason
      return (mine?.depth ?? 1) > 1
        ? `its turn: ${(mine?.depth ?? 1) - 1} others of task ${job.task} wait in lane ${job.lane}`
        : 'nothing stands in its way: a worker takes it with its next look'
    }
    case 'waiting': {
      const parent = await describeComposite(db, job.parentId!)
      return parent?.window === 0
        ? `it waits for the window of job ${job.parentId}, which is paused: sluice window ${job.parentId} N lets it go on`
        : `it waits for its place in the window of job ${job.parentId}: ${parent?.inFlight} of ${parent?.window} are in flight`
    }
    case 'running': {
      if (job.kind !== null) return waitsForChildren(job, await describeComposite(db, job.id))
      return job.cancelling
        ? `it does not wait: it runs on ${job.worker} and has been asked to stop`
        : `it does not wait: it runs on ${job.worker}`
    }
    case 'completed':
    case 'failed':
    case 'cancelled':
    case 'skipped':
      return `it does not wait: it has ${job.state === 'cancelled' || job.state === 'skipped' ? `been ${job.state}` : job.state}`
    default:
      return job.state satisfies never
  }
}

function waitsForChildren(job: JobView, view: CompositeView | undefined): string {
  if (view === undefined) return 'it is about to start'
  const ended = `${view.ended} of ${view.total} children have ended`
  if (view.closing) return `it stops what is below it: ${ended}`
  const window = view.window === null ? '' : `, ${view.inFlight} of at most ${view.window} are in flight`
  return job.kind === 'fanout'
    ? `it waits for its children: ${ended}${window}`
    : `it waits for its steps: ${ended}`
}
