import { setTimeout as delay } from 'node:timers/promises'

/** Goes on where a test lets no time pass for the code that it tests. */
const now = performance.now.bind(performance)

/**
 * Waits until `look` gives something other than false, null or undefined, and returns it.
 *
 * @param what Names the state in the error, for example `job 7 to run`.
 * @param withinMs The bound. Reaching it is a failure, so it is far above what is ever needed, also on a machine that does ten
 *   other things. For work whose amount decides how long it takes there is `untilNoneLeft`.
 */
export async function until<T>(
  look: () => T | Promise<T>,
  what: string,
  withinMs = 60_000,
): Promise<Exclude<T, false | null | undefined>> {
  const end = now() + withinMs
  for (;;) {
    const seen = await look()
    if (seen !== false && seen !== null && seen !== undefined)
      return seen as Exclude<T, false | null | undefined>
    if (now() > end) throw new Error(`waited ${withinMs} ms in vain for ${what}`)
    await delay(10)
  }
}

/**
 * Waits until nothing is left of what `left` counts, however slow the machine is. Fails only when no smaller number has been seen
 * for `stuckMs`: a number that goes up and down is no progress.
 */
export async function untilNoneLeft(
  left: () => number | Promise<number>,
  what: string,
  stuckMs = 60_000,
): Promise<void> {
  let least = Number.POSITIVE_INFINITY
  let movedAt = now()
  for (;;) {
    const count = await left()
    if (count === 0) return
    if (count < least) [least, movedAt] = [count, now()]
    else if (now() - movedAt > stuckMs)
      throw new Error(`waited in vain for ${what}: ${count} left, and none fewer for ${stuckMs} ms`)
    await delay(10)
  }
}

let lastFaultAt = 0

/** A statement was made to fail: until everybody has come across all faults that are planned, waits go on. */
export function noteFault(): void {
  lastFaultAt = now()
}

/**
 * As `until`, for lives in which every statement fails: what is lost is found again by polls and duties, each in its time. Fails only
 * when nothing has been made to fail for a minute.
 */
export async function patiently<T>(
  look: () => T | Promise<T>,
  what: string,
): Promise<Exclude<T, false | null | undefined>> {
  for (;;) {
    const faultAt = lastFaultAt
    try {
      return await until(look, what, 60_000)
    } catch (error) {
      if (lastFaultAt === faultAt) throw error
    }
  }
}
