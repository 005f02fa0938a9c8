import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { checkWhole } from '../../model/argument.ts'
import { JOB_STATES, type JobState, type JobStatus, statusOf } from '../../model/job.ts'
import { checkJobId } from '../../model/job-id.ts'
import { countByRange, type StretchRow } from '../../store/count-by-range.ts'
import { loadBranch, loadBranchesFrom } from '../../store/load-branches.ts'
import { jobNotFound } from '../operate/job-control.ts'
import { type GraphNode, toGraphNode } from './graph-view.ts'

/** A fan-out of any size in a few numbers. */
export interface Strip {
  readonly total: number
  readonly window: number | null
  readonly inFlight: number
  /** Places of a bucket; the last may have fewer. */
  readonly size: number
  readonly buckets: readonly Bucket[]
}

/** How the children of a stretch of places stand. */
export interface Bucket {
  readonly from: number
  readonly to: number
  /** For a place in the window, or not made yet. */
  readonly waiting: number
  /** Let start: waits for a slot, an approval or its next attempt. */
  readonly queued: number
  readonly running: number
  readonly completed: number
  readonly failed: number
  readonly cancelled: number
  readonly skipped: number
}

const MOST_BUCKETS = 1000
const MOST_CHILDREN = 500

/**
 * The children of a fan-out, counted by place and state.
 *
 * @throws {SluiceError} `JOB_NOT_FOUND`; `NOT_A_FANOUT`.
 */
export async function stripOf(db: Queryable, id: string, buckets: number): Promise<Strip> {
  checkWhole(buckets, 'buckets', 1, MOST_BUCKETS)
  const job = await loadBranch(db, checkJobId(id))
  if (job === undefined) throw jobNotFound(db, id)
  if (job.kind !== 'fanout') {
    const message = `job ${id} is a ${job.kind ?? 'task'}; only fan-outs have a strip`
    throw new SluiceError('NOT_A_FANOUT', message, { details: { jobId: id } })
  }
  const total = job.total ?? 0
  const size = Math.max(1, Math.ceil(total / buckets))
  const rows = total === 0 ? [] : await countByRange(db, id, size)
  const { window } = job
  return { total, window, inFlight: job.inFlight ?? 0, size, buckets: toBuckets(rows, total, size) }
}

function toBuckets(rows: readonly StretchRow[], total: number, size: number): Bucket[] {
  const counts = new Map(rows.map(({ bucket, state, count }) => [`${bucket} ${state}`, count]))
  return Array.from({ length: Math.ceil(total / size) }, (_, bucket) => {
    const of = (state: JobState) => counts.get(`${bucket} ${state}`) ?? 0
    const from = bucket * size
    const to = Math.min(total, from + size) - 1
    const queued = of('ready') + of('scheduled') + of('awaiting_approval')
    const [running, completed, failed] = [of('running'), of('completed'), of('failed')]
    const [cancelled, skipped] = [of('cancelled'), of('skipped')]
    const waiting = to - from + 1 - queued - running - completed - failed - cancelled - skipped
    return { from, to, waiting: Math.max(0, waiting), queued, running, completed, failed, cancelled, skipped }
  })
}

/**
 * The children of a job from a place on, in order; `next` is where to go on.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT`.
 */
export async function childrenOf(
  db: Queryable,
  id: string,
  {
    status,
    from = 0,
    limit = 100,
  }: { readonly status?: readonly JobStatus[]; readonly from?: number; readonly limit?: number },
): Promise<{ readonly children: readonly GraphNode[]; readonly next: number | null }> {
  checkWhole(limit, 'limit', 1, MOST_CHILDREN)
  const states =
    status === undefined ? undefined : JOB_STATES.filter((each) => status.includes(statusOf(each)))
  const rows = await loadBranchesFrom(db, checkJobId(id), from, states, limit + 1)
  const children = rows.slice(0, limit).map((row) => toGraphNode(row))
  return { children, next: rows.length > limit ? rows[limit]!.index : null }
}
