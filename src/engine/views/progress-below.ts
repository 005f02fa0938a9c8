import type { Queryable } from '../../db/database.ts'
import { formatDuration } from '../../model/duration.ts'
import { type CompositeKind, type JobState, type JobStatus, statusOf } from '../../model/job.ts'
import { type BelowRow, countBelow, type FanRow, type WaitRow } from '../../store/count-below.ts'
import { findFanOutFailures } from '../workflows/fan-out-failure.ts'

interface Share {
  readonly total: number
  /** However they ended. */
  readonly ended: number
}

interface FanOutShare {
  /** Its window is 0. */
  readonly paused?: boolean
  /** Why it cannot succeed any more. Absent: it still can. */
  readonly willFail?: string
}

/** How far something is that has others below it: of a fan-out its children, of a workflow its steps. */
export interface Below extends Share, FanOutShare {
  /** Of a workflow: the first of its fan-outs that runs. */
  readonly fanOut?: Share & FanOutShare & { readonly step: string }
  /** Of a workflow: the step it waits for. */
  readonly waitsFor?: WaitsFor
}

/** The step that a workflow waits for. */
export interface WaitsFor {
  readonly jobId: string
  /** With the groups and sub-workflows on the way: `publish/notify`. */
  readonly step: string
  readonly status: JobStatus
  /** What keeps it from starting, where that is known. */
  readonly reason: string | null
  /** The same in a few words. */
  readonly text: string
}

/** Of a list of any length, so many at most are looked into. */
const MOST_JOBS = 500

/** Says of workflows and fan-outs that run how far they are and what they wait for. Without any it costs nothing. */
export async function withBelow<
  T extends { readonly id: string; readonly kind: CompositeKind | null; readonly state: JobState },
>(db: Queryable, jobs: readonly T[]): Promise<(T & { readonly below?: Below })[]> {
  const running = jobs.filter(
    ({ kind, state }) => state === 'running' && (kind === 'workflow' || kind === 'fanout'),
  )
  if (running.length === 0) return [...jobs]
  const rows = await countBelow(
    db,
    running.slice(0, MOST_JOBS).map(({ id }) => id),
  )
  const failing = await findFanOutFailures(
    db,
    rows.flatMap(({ fan }) => (fan === null ? [] : [fan])),
  )
  const found = new Map(rows.map((row) => [row.id, toBelow(row, failing)]))
  return jobs.map((job) => {
    const below = found.get(job.id)
    return below === undefined ? job : { ...job, below }
  })
}

function toBelow({ id, total, ended, fan, wait }: BelowRow, failing: ReadonlyMap<string, string>): Below {
  const share = fan === null ? {} : shareOf(fan, failing.get(fan.id))
  if (fan?.id === id) return { total, ended, ...share }
  return {
    total,
    ended,
    ...(fan !== null && {
      fanOut: { step: fan.step ?? '', total: fan.total, ended: endedOf(fan), ...share },
    }),
    ...(wait !== null && { waitsFor: toWaitsFor(wait, fan, failing) }),
  }
}

function shareOf({ window }: FanRow, willFail: string | undefined): FanOutShare {
  return { ...(window === 0 && { paused: true }), ...(willFail !== undefined && { willFail }) }
}

function endedOf({ completed, failed, cancelled }: FanRow): number {
  return completed + failed + cancelled
}

function toWaitsFor(wait: WaitRow, fan: FanRow | null, failing: ReadonlyMap<string, string>): WaitsFor {
  const { id: jobId, step, state, error, dueMs, reason: sampled } = wait
  const retry =
    dueMs === null || error === null ? null : `retries in ${formatDuration(dueMs)} after: ${error}`
  const reason = state === 'scheduled' ? retry : sampled
  return { jobId, step, status: statusOf(state), reason, text: words(wait, reason, fan, failing) }
}

function words(
  { id, step, state, kind, dueMs }: WaitRow,
  reason: string | null,
  fan: FanRow | null,
  failing: ReadonlyMap<string, string>,
): string {
  if (state === 'awaiting_approval') return `waits for approval of step ${step} (job ${id})`
  if (state === 'scheduled') return `step ${step} is ${reason ?? `due in ${formatDuration(dueMs ?? 0)}`}`
  if (state === 'ready' || state === 'waiting')
    return `step ${step} is queued${reason === null ? '' : `: ${reason}`}`
  if (kind !== 'fanout' || fan?.id !== id) return `step ${step} is running`
  const paused = fan.window === 0 ? ', paused' : ''
  const willFail = failing.get(id)
  const doomed = willFail === undefined ? '' : `; will fail: ${willFail}`
  return `step ${step}: ${endedOf(fan)} of ${fan.total} done${paused}${doomed}`
}
