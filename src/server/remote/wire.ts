import type { CycleAnswerBody, EndedBody, JobBody, WorkerTask } from '../../api/worker-protocol.ts'
import { checkJsonText } from '../../engine/remote-workers.ts'
import { messageOf } from '../../errors.ts'
import type { Assignment, EndedAttempt } from '../../model/assignment.ts'
import type { Ending } from '../../model/job.ts'
import { toStorableText } from '../../model/json.ts'
import type { TaskRecord } from '../../model/task-record.ts'
import type { PollAnswer } from './idle-poll.ts'

const MAX_ERROR = 16_384
/** Of inputs in one answer; a single one may have more. */
const ANSWER_CHARACTERS = 32 * 1024 * 1024

export function recordOf(task: WorkerTask, deadlineMs: number | null): TaskRecord {
  const { name, lane = 'default', priority = 0, approval = false, losses = 3, onLost = 'retry' } = task
  return {
    name,
    lane,
    model: null,
    requires: task.requires ?? {},
    priority,
    approval,
    deadlineMs: task.deadlineMs ?? deadlineMs,
    maxLosses: losses,
    onLost,
  }
}

export function toEnded({
  id,
  attempt,
  ending,
  result = 'null',
  error = '',
  delayMs = 0,
}: EndedBody): EndedAttempt {
  return { id, attempt, ending: toEnding(ending, result, toStorableText(error, MAX_ERROR), delayMs) }
}

function toEnding(kind: EndedBody['ending'], result: string, error: string, delayMs: number): Ending {
  switch (kind) {
    case 'completed':
      try {
        return { kind, result: checkJsonText(result, 'the result') }
      } catch (refusal) {
        // The same code would give the same result: no second try.
        return { kind: 'failed', error: toStorableText(`internal: ${messageOf(refusal)}`, MAX_ERROR) }
      }
    case 'failed':
    case 'cancelled':
      return { kind, error }
    case 'retry':
      return { kind, error, delayMs }
    case 'snoozed':
      return { kind, delayMs }
    case 'returned':
      return error === '' ? { kind } : { kind, error }
    default:
      return kind satisfies never
  }
}

export function firstDue(ended: readonly EndedAttempt[]): number | null {
  const delays = ended.flatMap(({ ending }) => ('delayMs' in ending ? [ending.delayMs] : []))
  return delays.length === 0 ? null : Math.min(...delays)
}

/** What says nothing is left out: most jobs have no key, no tags and no failures, and thousands go out a second. */
export function toAnswer({ assignments, lost, refused, again, orders }: PollAnswer): CycleAnswerBody {
  const fit = howManyFit(assignments)
  return {
    jobs: assignments.slice(0, fit).map(toJob),
    ...(lost.length > 0 && { lost: [...lost] }),
    ...(refused.length > 0 && { refused: refused.map((each) => ({ ...each, code: 'LEASE_LOST' })) }),
    ...((again || fit < assignments.length) && { again: true }),
    ...(orders !== undefined && {
      cancel: [...orders.cancels],
      draining: orders.draining,
      stop: orders.stopping,
    }),
  }
}

/** Those that do not fit into one answer come with the next: the worker does not name them as running. */
function howManyFit(assignments: readonly Assignment[]): number {
  let characters = 0
  for (let i = 0; i < assignments.length; i++) {
    characters += assignments[i]!.input?.length ?? 0
    if (i > 0 && characters > ANSWER_CHARACTERS) return i
  }
  return assignments.length
}

function toJob(job: Assignment): JobBody {
  const {
    id,
    attempt,
    task,
    lane,
    input,
    submittedAt,
    failures,
    priority,
    key,
    tags: marks,
    policy,
    trace,
  } = job
  return {
    id,
    attempt,
    task,
    lane,
    input,
    submittedAt: toIso(submittedAt),
    ...(failures > 0 && { failures }),
    ...(priority !== 0 && { priority }),
    ...(key !== null && { key }),
    ...(marks.length > 0 && { tags: [...marks] }),
    ...(policy !== undefined && { policy }),
    ...(trace !== undefined && { trace }),
  }
}

/** The database's text of a time, as others read it: `2031-05-01 08:00:00.5+00` is `2031-05-01T08:00:00.5+00:00`. */
function toIso(text: string): string {
  const iso = text.replace(' ', 'T')
  return /[+-]\d\d$/.test(iso) ? `${iso}:00` : iso
}
