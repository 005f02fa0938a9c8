import { SluiceError } from '../errors.ts'
import type { Ending } from '../model/job.ts'
import { toStorableJson, toStorableText } from '../model/json.ts'
import { type RetryPolicy, retryDelay } from '../model/retry.ts'
import { BrokenWorker, type Stop } from './attempt.ts'

const MAX_ERROR = 16_384
const MAX_DELAY_MS = 366 * 86_400_000

/** Thrown by a task to say how it wants to end. */
export class Verdict extends Error {
  override readonly name = 'Verdict'
  readonly kind: 'fail' | 'retry' | 'snooze'
  readonly at: Date | number | undefined

  constructor(kind: 'fail' | 'retry' | 'snooze', message: string, at?: Date | number) {
    super(message)
    this.kind = kind
    this.at = at
  }
}

/** `throw fail(reason)`: the job has failed for good, whatever its retry policy says. */
export function fail(reason: string): Error {
  return new Verdict('fail', reason)
}

/** `throw retryAt(time)`: counts as a failure and is tried again at that time (a Date), or after that many milliseconds. */
export function retryAt(time: Date | number, reason = 'asked to be tried again'): Error {
  return new Verdict('retry', reason, time)
}

/** `throw snooze(time)`: comes back at that time (a Date), or after that many milliseconds; counts as nothing. */
export function snooze(time: Date | number): Error {
  return new Verdict('snooze', 'snoozed', time)
}

export type Settled =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown }

/**
 * What the end of an attempt means for its job. The one place where that is decided.
 *
 * @param stop Why the attempt was told to stop, if it was.
 * @param failures Failures of earlier attempts.
 * @param now Milliseconds, for tasks that named a point in time.
 * @param random From 0 up to, not including, 1.
 */
export function decideEnding(
  settled: Settled,
  stop: Stop | undefined,
  policy: { readonly task: string; readonly retry: RetryPolicy },
  failures: number,
  now: number,
  random: number,
): Ending {
  switch (stop?.reason) {
    case 'cancelled':
      return { kind: 'cancelled', error: `cancelled: ${stop.message}` }
    case 'timeout':
      return afterFailure(`timeout: ${stop.message}`, policy.retry, failures, random)
    case 'lease-lost': // If the lease did survive after all, another worker may have the job; if not, this is refused.
    case 'shutdown':
      return settled.ok ? completed(settled.value, policy.task) : { kind: 'returned' }
    default:
      return settled.ok
        ? completed(settled.value, policy.task)
        : afterError(settled.error, policy.retry, failures, now, random)
  }
}

function completed(value: unknown, task: string): Ending {
  try {
    return { kind: 'completed', result: toStorableJson(value, `the result of task ${task}`) }
  } catch (error) {
    // The same code would give the same result: no second try.
    return { kind: 'failed', error: `internal: ${errorText(error)}` }
  }
}

function afterError(
  error: unknown,
  retry: RetryPolicy,
  failures: number,
  now: number,
  random: number,
): Ending {
  if (error instanceof BrokenWorker) return { kind: 'returned' }
  if (error instanceof SluiceError && (error.code === 'NOT_STORABLE' || error.code === 'INVALID_INPUT')) {
    return { kind: 'failed', error: `internal: ${errorText(error)}` }
  }
  if (!isVerdict(error)) return afterFailure(errorText(error), retry, failures, random)
  const delayMs = delayUntil(error.at, now)
  switch (error.kind) {
    case 'fail':
      return { kind: 'failed', error: errorText(error) }
    case 'snooze':
      return { kind: 'snoozed', delayMs }
    case 'retry':
      return failures + 1 < retry.attempts
        ? { kind: 'retry', error: errorText(error), delayMs }
        : { kind: 'failed', error: errorText(error) }
    default:
      return error.kind satisfies never
  }
}

function afterFailure(error: string, retry: RetryPolicy, failures: number, random: number): Ending {
  const delayMs = retryDelay(retry, failures + 1, random)
  return delayMs === undefined ? { kind: 'failed', error } : { kind: 'retry', error, delayMs }
}

/** By shape, not by class: a verdict may come from a pool process or another copy of this package. */
function isVerdict(error: unknown): error is Verdict {
  return error instanceof Error && error.name === 'Verdict' && 'kind' in error
}

function delayUntil(at: Date | number | undefined, now: number): number {
  const delay = at instanceof Date ? at.getTime() - now : Number(at ?? 0)
  return Number.isFinite(delay) ? Math.min(Math.max(0, delay), MAX_DELAY_MS) : 0
}

/** The text kept with the job: the message, with the causes behind it. */
export function errorText(error: unknown): string {
  let text = ''
  for (let each: unknown = error, depth = 0; each !== undefined && each !== null && depth < 5; depth++) {
    text += depth === 0 ? describe(each) : ` (caused by ${describe(each)})`
    each = each instanceof Error ? each.cause : undefined
  }
  return toStorableText(text, MAX_ERROR)
}

function describe(error: unknown): string {
  if (error instanceof Error) return error.message || error.name
  try {
    return typeof error === 'string' ? error : (JSON.stringify(error) ?? String(error))
  } catch {
    return Object.prototype.toString.call(error)
  }
}
