import { SluiceError } from '../errors.ts'
import { show } from '../model/argument.ts'
import { type Duration, parseDuration } from '../model/duration.ts'
import { type ErrorDetail, thrownAt } from '../model/error-detail.ts'
import type { Ending, OutOfMemory } from '../model/job.ts'
import { toStorableJson, toStorableText } from '../model/json.ts'
import { MAX_ERROR, MAX_RETRY_DELAY_MS } from '../model/limits.ts'
import { withoutSecrets } from '../model/redact.ts'
import { type RetryPolicy, retryDelay } from '../model/retry.ts'
import { BrokenWorker, StartFailure, type Stop } from './attempt.ts'
import { asOutOfMemory } from './models/out-of-memory.ts'
import { detailOf, toWireError, type WireError } from './thrown.ts'

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

/** `throw retryAt(time)`: counts as a failure and is tried again at that time (a Date), or after that duration (`'30s'`, 5000). */
export function retryAt(time: Date | Duration, reason = 'asked to be tried again'): Error {
  return new Verdict('retry', reason, checkTime(time, 'retryAt'))
}

/** `throw snooze(time)`: comes back at that time (a Date), or after that duration (`'30s'`, 5000); counts as nothing. */
export function snooze(time: Date | Duration): Error {
  return new Verdict('snooze', 'snoozed', checkTime(time, 'snooze'))
}

/** A time that is none would bring the job back at once, again and again. */
function checkTime(time: Date | Duration, where: string): Date | number {
  if (typeof time === 'string') return parseDuration(time, where)
  const ms = time instanceof Date ? time.getTime() : time
  if (typeof ms === 'number' && !Number.isNaN(ms)) return time
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `${where}: ${show(time)} is not a time; use a Date, a duration such as 30s, or a number of milliseconds`,
  )
}

export interface EndingPolicy {
  readonly task: string
  readonly retry: RetryPolicy
  readonly memory?: Memory | undefined
}

interface Memory {
  readonly model: boolean
  readonly loading: boolean
}

export type Settled =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown }

/**
 * What the end of an attempt means for its job. The one place where that is decided.
 *
 * @param policy `memory` of a job that draws from devices: out of memory is then no failure. `loading`: its model was not
 *   there yet; `model`: it has one.
 * @param stop Why the attempt was told to stop, if it was.
 * @param failures Failures of earlier attempts.
 * @param now Milliseconds, for tasks that named a point in time.
 * @param random From 0 up to, not including, 1.
 */
export function decideEnding(
  settled: Settled,
  stop: Stop | undefined,
  policy: EndingPolicy,
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
        : afterError(settled.error, policy, failures, now, random)
  }
}

/** What is kept of what was thrown: of attempts whose ending tells an error, unless they only gave in to being stopped. */
export function detailOfEnding(settled: Settled, ending: Ending): ErrorDetail | undefined {
  if (settled.ok || !('error' in ending) || ending.kind === 'cancelled') return undefined
  return settled.error instanceof Error && settled.error.name === 'Stop' ? undefined : detailOf(settled.error)
}

function completed(value: unknown, task: string): Ending {
  try {
    return { kind: 'completed', result: toStorableJson(value, `the result of task ${task}`) }
  } catch (error) {
    // The same code would give the same result: no second try.
    return { kind: 'failed', error: errorText(error) }
  }
}

function afterError(
  error: unknown,
  { retry, memory }: EndingPolicy,
  failures: number,
  now: number,
  random: number,
): Ending {
  const scarce = memory === undefined ? undefined : outOfMemoryEnding(error, memory)
  if (scarce !== undefined) return scarce
  if (error instanceof BrokenWorker || error instanceof StartFailure)
    return { kind: 'returned', error: errorText(error) }
  if (error instanceof SluiceError && (error.code === 'NOT_STORABLE' || error.code === 'INVALID_INPUT')) {
    return { kind: 'failed', error: errorText(error) }
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

/**
 * A job without a model may say by the text of its error what it needs in all. With one, nobody knows how much of that is
 * the model's.
 */
function outOfMemoryEnding(error: unknown, { model, loading }: Memory): OutOfMemory | undefined {
  const text = errorText(error)
  const scarce = asOutOfMemory(error, text)
  if (scarce === undefined) return undefined
  const said = error instanceof Error && error.name === 'OutOfMemory'
  const { needed } = scarce
  return {
    kind: 'out_of_memory',
    error: text,
    loading,
    ...(needed !== undefined && (said || !model) && { needed }),
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
  return Number.isNaN(delay) ? 0 : Math.min(Math.max(0, delay), MAX_RETRY_DELAY_MS)
}

/** The text kept with the job: the message, with the causes behind it. Never throws. */
export function errorText(error: unknown, detail: ErrorDetail = detailOf(error)): string {
  let each = toWireError(error, Number.POSITIVE_INFINITY)
  let of: ErrorDetail | undefined = detail
  let text = errorTextWithoutCauses(each, of)
  for (let depth = 1; depth < 5 && each.kind === 'error' && each.cause !== undefined; depth++) {
    each = each.cause
    of = of?.cause
    text += ` (caused by ${errorTextWithoutCauses(each, of)})`
  }
  return toStorableText(withoutSecrets(text), MAX_ERROR)
}

function errorTextWithoutCauses(error: WireError, detail: ErrorDetail | undefined): string {
  if (error.kind === 'value') {
    const { value } = error
    return typeof value === 'string' && detail?.value === undefined
      ? value
      : (detail?.message ?? String(value))
  }
  if (error.message !== '') return error.message
  const place = detail === undefined ? undefined : thrownAt(detail)
  return `${detail?.class ?? error.name} without a message${place === undefined ? '' : `, thrown at ${place}`}`
}
