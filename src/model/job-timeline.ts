import type { JobState } from './job.ts'

/** What is stored about a job's life. */
export interface JobTimes {
  readonly state: JobState
  readonly submittedAt: Date
  readonly submittedBy: string | null
  readonly approvedBy: string | null
  /** Since when its last attempt could start, or when its next one can. */
  readonly readyAt: Date
  readonly cancelAt: Date | null
  readonly finishedAt: Date | null
  readonly error: string | null
  /** It only waits for its children. */
  readonly isComposite: boolean
  readonly startedAt: Date | null
}

/** A cancel or retry of the job, or of a job that contains it. */
export interface JobAct {
  readonly at: Date
  readonly by: string
  readonly what: 'retry' | 'cancel'
}

export interface AttemptTimes {
  readonly attempt: number
  readonly worker: string | null
  readonly startedAt: Date | null
  readonly endedAt: Date | null
  /**
   * `running`, the attempt's outcome, or the job's final state. `rerun`: the job had ended in that state and was run
   * again later.
   */
  readonly ending: string
  /** For a `rerun`: the state in which the job had ended, a colon, and the error. */
  readonly error: string | null
}

export const TIMELINE_EVENTS = [
  'submitted',
  'approved',
  'rejected',
  'waiting',
  'scheduled',
  'ready',
  'started',
  'failed',
  'lost',
  'snoozed',
  'returned',
  'out_of_memory',
  'rerun',
  'cancel_asked',
  'completed',
  'cancelled',
  'skipped',
] as const
export type TimelineEvent = (typeof TIMELINE_EVENTS)[number]

/** One event in a job's life. */
export interface TimelineEntry {
  /** `null` if the time is not stored. */
  readonly at: Date | null
  readonly what: TimelineEvent
  readonly attempt: number | null
  readonly worker: string | null
  /** Who did it, if it was a caller's action. */
  readonly by: string | null
  readonly error: string | null
  /** For a start: how long the job waited before. For an end: how long the attempt took. */
  readonly durationMs: number | null
  /** The job has ended with this event. */
  readonly final: boolean
}

const NOTHING = {
  at: null,
  attempt: null,
  worker: null,
  by: null,
  error: null,
  durationMs: null,
  final: false,
}

/**
 * Reconstructs a job's timeline, in order, from what is stored. All attempts are stored, but only the last of the
 * waits between them, and of an approval only who gave it.
 *
 * @param acts Recorded cancels and retries, oldest first.
 */
export function timelineOf(
  job: JobTimes,
  attempts: readonly AttemptTimes[],
  acts: readonly JobAct[] = [],
): TimelineEntry[] {
  const { submittedAt, submittedBy, approvedBy, readyAt, cancelAt, finishedAt, state, error } = job
  const entries: TimelineEntry[] = [{ ...NOTHING, what: 'submitted', at: submittedAt, by: submittedBy }]
  const isRejected = error?.startsWith('rejected:') === true
  if (approvedBy !== null)
    entries.push({ ...NOTHING, what: isRejected ? 'rejected' : 'approved', by: approvedBy })
  const last = attempts.at(-1)
  for (const [place, attempt] of attempts.entries()) {
    // For an ended attempt, the row may hold the time when the next one could start.
    const isKnown = attempt === last && attempt.startedAt !== null && readyAt <= attempt.startedAt
    if (isKnown) entries.push({ ...NOTHING, what: 'ready', at: readyAt })
    entries.push(...entriesOf(attempt, finishedAt, isKnown ? ms(readyAt, attempt.startedAt) : null))
    if (attempt.ending !== 'rerun') continue
    const next = attempts[place + 1]
    const act = actWithin(acts, 'retry', attempt.endedAt, next?.startedAt ?? null)
    // The attempt is recorded shortly after the job becomes ready with it.
    const ready = next === undefined || next === last ? readyAt : null
    entries.push({ ...NOTHING, what: 'rerun', at: earlier(act?.at ?? null, ready), by: act?.by ?? null })
  }
  if (attempts.length === 0 && job.isComposite && job.startedAt !== null)
    entries.push({ ...NOTHING, what: 'started', at: job.startedAt })
  const asked = cancelAt === null ? undefined : actWithin(acts, 'cancel', cancelAt, null)
  const cancelledBy = asked?.by ?? null
  // A job that was not running ended when the cancel was requested.
  if (cancelAt !== null && cancelAt.getTime() !== finishedAt?.getTime())
    insert(entries, { ...NOTHING, what: 'cancel_asked', at: cancelAt, by: cancelledBy })
  if (state === 'ready' || state === 'scheduled') entries.push({ ...NOTHING, what: state, at: readyAt })
  if (state === 'waiting') entries.push({ ...NOTHING, what: 'waiting' })
  const isTold = entries.some((entry) => entry.final)
  if (finishedAt !== null && !isTold && isFinalEvent(state))
    entries.push({
      ...NOTHING,
      what: state,
      at: finishedAt,
      by: state === 'cancelled' ? cancelledBy : null,
      error,
      final: true,
      durationMs: job.isComposite ? ms(job.startedAt, finishedAt) : null,
    })
  return entries
}

/** Parses how an attempt ended before its job was run again. @param error For example `failed: no such file`. */
export function endingBeforeRerun(error: string | null): {
  readonly ending: string
  readonly error: string | null
} {
  const [, ending = 'failed', why = null] = /^(\w+)(?:: (.*))?$/s.exec(error ?? '') ?? []
  return { ending, error: why }
}

function entriesOf(
  { attempt, worker, startedAt, endedAt, ending, error }: AttemptTimes,
  finishedAt: Date | null,
  waitedMs: number | null,
): TimelineEntry[] {
  const own = { ...NOTHING, attempt, worker }
  if (ending === 'rerun') {
    const own = endingBeforeRerun(error)
    return entriesOf({ attempt, worker, startedAt, endedAt, ...own }, finishedAt, waitedMs)
  }
  const start: TimelineEntry = { ...own, what: 'started', at: startedAt, durationMs: waitedMs }
  if (ending === 'running' || !isEvent(ending)) return [start]
  const final = finishedAt !== null && endedAt?.getTime() === finishedAt.getTime()
  return [start, { ...own, what: ending, at: endedAt, error, durationMs: ms(startedAt, endedAt), final }]
}

/** The first act of a kind recorded within a period. */
function actWithin(
  acts: readonly JobAct[],
  what: JobAct['what'],
  from: Date | null,
  to: Date | null,
): JobAct | undefined {
  return acts.find(
    (act) => act.what === what && (from === null || act.at >= from) && (to === null || act.at <= to),
  )
}

function earlier(one: Date | null, other: Date | null): Date | null {
  if (one === null || other === null) return one ?? other
  return one < other ? one : other
}

/** Inserts before the first later entry. */
function insert(entries: TimelineEntry[], entry: TimelineEntry): void {
  const at = entries.findIndex((each) => each.at !== null && each.at > entry.at!)
  entries.splice(at < 0 ? entries.length : at, 0, entry)
}

function isEvent(text: string): text is TimelineEvent {
  return TIMELINE_EVENTS.some((event) => event === text)
}

function isFinalEvent(state: JobState): state is 'completed' | 'failed' | 'cancelled' | 'skipped' {
  return state === 'completed' || state === 'failed' || state === 'cancelled' || state === 'skipped'
}

function ms(from: Date | null, to: Date | null): number | null {
  return from === null || to === null ? null : to.getTime() - from.getTime()
}
