import type { Duration } from './duration.ts'

/** How often a failing job is tried, and the wait between attempts. */
export interface RetryPolicy {
  /** Failures after which the job fails for good. 1 means no retry. */
  readonly attempts: number
  readonly backoff: 'exponential' | 'fixed'
  readonly delayMs: number
  readonly maxDelayMs: number
}

/** The retry policy as tasks and steps write it. */
export interface RetryOptions {
  /** Failures after which the job fails for good. 1 means no retry. Default 3. */
  readonly attempts?: number
  /** How the wait grows between attempts. Default exponential, with jitter. */
  readonly backoff?: 'exponential' | 'fixed'
  /** The wait before the second attempt. Default 1 s. */
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
 * The wait before the next attempt, or `undefined` if none is left.
 *
 * Jitter shortens the wait by up to half, so that jobs which failed together are not retried together.
 *
 * @param failures Failures so far, including this one.
 * @param random From 0 up to, but not including, 1.
 */
export function retryDelay(policy: RetryPolicy, failures: number, random: number): number | undefined {
  if (failures >= policy.attempts) return undefined
  const factor = policy.backoff === 'exponential' ? 2 ** Math.min(failures - 1, 52) : 1
  const delay = Math.min(policy.delayMs * factor, policy.maxDelayMs)
  return Math.round(delay * (1 - random / 2))
}
