import type { JobState } from './job.ts'

/** What is stored of a job's life. */
export interface JobTimes {
  readonly state: JobState
  readonly submittedAt: Date
  readonly submittedBy: string | null
  readonly approvedBy: string | null
  /** Since when its last attempt could start, or from when its next one can. */
  readonly readyAt: Date
  readonly cancelAt: Date | null
  readonly finishedAt: Date | null
  readonly error: string | null
  /** It only waits for what is below it. */
  readonly isComposite: boolean
  readonly startedAt: Date | null
}

/** Somebody cancelled or retried the job, or what it is part of. */
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
  /** `running`, how it ended, or the job's final state. `rerun`: the job ended with it, and was run again later. */
  readonly ending: string
  /** Of a `rerun`: the state it had ended in, and after a colon why. */
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

/** One step of a job's life. */
export interface TimelineEntry {
  /** `null`: it is not stored when that was. */
  readonly at: Date | null
  readonly what: TimelineEvent
  readonly attempt: number | null
  readonly worker: string | null
  /** Who did it, where somebody did. */
  readonly by: string | null
  readonly error: string | null
  /** Of a start: how long it waited before. Of an ending: how long the attempt took. */
  readonly durationMs: number | null
  /** The job has come to its end with this. */
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
 * The life of a job, in the order in which it happened, from what is stored of it. Of attempts all is stored; of waits
 * between them only the last one, and of an approval only who gave it.
 *
 * @param acts Who cancelled and retried it, the oldest first, where that was written down.
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
    // Of one that has ended it may be told since when the next could start.
    const isKnown = attempt === last && attempt.startedAt !== null && readyAt <= attempt.startedAt
    if (isKnown) entries.push({ ...NOTHING, what: 'ready', at: readyAt })
    entries.push(...entriesOf(attempt, finishedAt, isKnown ? ms(readyAt, attempt.startedAt) : null))
    if (attempt.ending !== 'rerun') continue
    const next = attempts[place + 1]
    const act = actWithin(acts, 'retry', attempt.endedAt, next?.startedAt ?? null)
    // It is written down a moment after the job has become ready with it.
    const ready = next === undefined || next === last ? readyAt : null
    entries.push({ ...NOTHING, what: 'rerun', at: earlier(act?.at ?? null, ready), by: act?.by ?? null })
  }
  if (attempts.length === 0 && job.isComposite && job.startedAt !== null)
    entries.push({ ...NOTHING, what: 'started', at: job.startedAt })
  const asked = cancelAt === null ? undefined : actWithin(acts, 'cancel', cancelAt, null)
  const cancelledBy = asked?.by ?? null
  // One that did not run ended with the asking.
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

/** How an attempt ended after which its job was run again. @param error `failed: no such file`: how, and why. */
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

/** The first of a kind that was written down after a moment, and before another. */
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

/** Before the first entry that is later. */
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
