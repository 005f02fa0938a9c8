/**
 * Milliseconds on CLOCK_MONOTONIC. On Linux and macOS every process of the machine reads the same
 * value, so a time taken in a producer can be subtracted in a worker. `performance.timeOrigin` is
 * taken from the wall clock once per process and drifts from it by microseconds per second.
 */
export function now() {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Milliseconds since 1970 with fractions, to compare with times that PostgreSQL wrote. */
export function wallNow() {
  return performance.timeOrigin + performance.now()
}

export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Asks `check` again every `everyMs` until it answers true. Throws with `what` after `limitMs`. */
export async function until(check, { everyMs, limitMs, what }) {
  const deadline = now() + limitMs
  while (!(await check())) {
    if (now() > deadline) throw new Error(`waited ${limitMs} ms for ${what}`)
    await pause(everyMs)
  }
}
