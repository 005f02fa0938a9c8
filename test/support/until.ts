import { setTimeout as delay } from 'node:timers/promises'

/**
 * Waits until `look` gives something other than false, null or undefined, and returns it.
 *
 * @param what Names the state in the error, for example `job 7 to run`.
 * @param withinMs The bound. Reaching it is a failure, so it is far above what is ever needed.
 */
export async function until<T>(
  look: () => T | Promise<T>,
  what: string,
  withinMs = 15_000,
): Promise<Exclude<T, false | null | undefined>> {
  const end = performance.now() + withinMs
  for (;;) {
    const seen = await look()
    if (seen !== false && seen !== null && seen !== undefined)
      return seen as Exclude<T, false | null | undefined>
    if (performance.now() > end) throw new Error(`waited ${withinMs} ms in vain for ${what}`)
    await delay(10)
  }
}

/** As `until`, for lives in which every statement fails: what is lost is found again by polls and duties, each in its time. */
export function patiently<T>(
  look: () => T | Promise<T>,
  what: string,
): Promise<Exclude<T, false | null | undefined>> {
  return until(look, what, 60_000)
}
