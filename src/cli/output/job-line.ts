import type { FanoutCounts } from '../../engine/views/tree.ts'
import type { JobStatus } from '../../model/job.ts'
import type { JobView } from '../../store/find-jobs.ts'
import { roughly } from './in-words.ts'
import type { Colour } from './style.ts'

const MARKS: Readonly<Record<JobStatus | 'not_reached', readonly [mark: string, colour: Colour]>> = {
  awaiting_approval: ['?', 'yellow'],
  queued: ['○', 'dim'],
  running: ['●', 'blue'],
  completed: ['✓', 'green'],
  failed: ['✗', 'red'],
  cancelled: ['⊘', 'magenta'],
  skipped: ['–', 'dim'],
  not_reached: ['·', 'dim'],
}

export function markOf(status: JobStatus | 'not_reached'): readonly [mark: string, colour: Colour] {
  return MARKS[status]
}

/** Its first start lies in the future, as its submission asked. */
export function isScheduled({ state, startedAt }: Pick<JobView, 'state' | 'startedAt'>): boolean {
  return state === 'scheduled' && startedAt === null
}

export function statusText(status: JobStatus | 'not_reached'): string {
  return status.replace('_', ' ')
}

/** `48 of 50 completed, 2 failed; 5 at once`. */
export function describeCounts({
  total,
  completed,
  failed,
  cancelled,
  window,
  inFlight,
  resumesAt,
  willFail,
}: FanoutCounts): string {
  const parts = [`${completed} of ${total} completed`]
  if (failed > 0) parts.push(`${failed} failed`)
  if (cancelled > 0) parts.push(`${cancelled} cancelled`)
  if (inFlight > 0) parts.push(`${inFlight} in flight`)
  const pace = window === null ? '' : window === 0 ? '; paused' : `; ${window} at once`
  const former = resumesAt === undefined ? '' : ` (window was ${resumesAt})`
  return `${parts.join(', ')}${pace}${former}${willFail === undefined ? '' : `; will fail: ${willFail}`}`
}

/** How long it ran, or has been running; nothing before it has started. */
export function describeTime(
  { startedAt, finishedAt }: { readonly startedAt: Date | null; readonly finishedAt: Date | null },
  now: Date,
): string | undefined {
  if (startedAt === null) return undefined
  const length = roughly((finishedAt ?? now).getTime() - startedAt.getTime())
  return finishedAt === null ? `for ${length}` : length
}
