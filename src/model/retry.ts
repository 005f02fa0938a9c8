import type { Duration } from './duration.ts'

/** How often a failing job is tried, and how long it waits in between. */
export interface RetryPolicy {
  /** Failures in all before the job has failed for good. 1: no second try. */
  readonly attempts: number
  readonly backoff: 'exponential' | 'fixed'
  readonly delayMs: number
  readonly maxDelayMs: number
}

/** The same as tasks and steps write it. */
export interface RetryOptions {
  /** How often the task may fail before its job has failed; 1: no second try. Default 3. */
  readonly attempts?: number
  /** How the wait grows from one try to the next. Default exponential, with jitter. */
  readonly backoff?: 'exponential' | 'fixed'
  /** Before the second try. Default 1 s. */
  readonly delay?: Duration
  /** The longest wait. Default 1 h. */
  readonly maxDelay?: Duration
}

export const DEFAULT_RETRY: RetryPolicy = {
  attempts: 3,
  backoff: 'exponential',
  delayMs: 1000,
  maxDelayMs: 3_600_000,
}

/**
 * The wait before the next try, or `undefined` when there is none left.
 *
 * Jitter takes up to half of the wait away, so that jobs which failed together
 * do not come back together.
 *
 * @param failures Failures so far, the present one included.
 * @param random From 0 up to, not including, 1.
 */
export function retryDelay(policy: RetryPolicy, failures: number, random: number): number | undefined {
  if (failures >= policy.attempts) return undefined
  const factor = policy.backoff === 'exponential' ? 2 ** Math.min(failures - 1, 52) : 1
  const delay = Math.min(policy.delayMs * factor, policy.maxDelayMs)
  return Math.round(delay * (1 - random / 2))
}
