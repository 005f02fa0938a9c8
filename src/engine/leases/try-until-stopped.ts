import { setTimeout as delay } from 'node:timers/promises'
import { type ErrorCode, hasCode, messageOf, SluiceError } from '../../errors.ts'

const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 1000

/**
 * Repeats an idempotent call until it succeeds, the other side rejects it permanently, or the attempt is stopped.
 *
 * @param away The code of errors that mean the other side is unavailable. Others are passed on.
 */
export async function tryUntilStopped<T>(
  signal: AbortSignal,
  what: string,
  away: ErrorCode,
  work: () => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (!hasCode(error, away)) throw error
      const waitMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1)) * (0.5 + Math.random() / 2)
      await delay(Math.max(waitMs, 1000 * (error.retryAfter ?? 0)), undefined, { signal }).catch(() => {})
      if (!signal.aborted) continue
      throw new SluiceError(
        away,
        `${what} before the attempt was stopped (tries: ${tries}): ${messageOf(error)}`,
        { cause: error },
      )
    }
  }
}
