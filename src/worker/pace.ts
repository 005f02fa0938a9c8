/** Jobs are assigned ahead for this long at most: an urgent job that comes now waits no longer for them. */
const AHEAD_MS = 20
/** Fewer endings say too little about how fast jobs of a task end. */
const FEWEST_ENDED = 3
/** How much the newest measurement counts. */
const NEWEST = 0.3
/** How many jobs are assigned ahead at first, until it is known how long they wait. */
const FIRST_WINDOW = 64
const LARGEST_WINDOW = 1000

interface Measured {
  running: number
  /** Since when some job of it has been running. */
  busySince: number
  /** Since the last measurement: how long some job of it ran, how many ended, and for how long these ran in all. */
  busyMs: number
  ended: number
  ranMs: number
  /** Jobs that end in a millisecond in which some run; undefined until it has been measured. */
  rate: number | undefined
  /** How long one runs. */
  meanMs: number
  /** As many may be assigned ahead. */
  window: number
  /** Of those that have been since the last measurement: how many, and for how long one of them waited at most. */
  waited: number
  longestMs: number
}

/**
 * How fast a worker gets through the jobs of a task in a lane, and so how many of them it can start in the next 20 ms.
 *
 * Two bounds decide, and the smaller one counts. The rate says how many jobs end in 20 ms; the time in which none of them runs does not count, because
 * a worker that waits for the database would seem slow. The window is what the waits of assigned jobs have shown: it doubles while they start in
 * three quarters of that time, and shrinks when they take longer, as on a machine with too little processor time. Tasks whose jobs run for longer than 20 ms are
 * never prefetched: two long ones could hold up what is assigned, and another worker may have a slot.
 */
export class Pace {
  readonly #measured = new Map<string, Measured>()

  started(key: string, now: number): void {
    let each = this.#measured.get(key)
    if (each === undefined) {
      each = { running: 0, busySince: 0, ...NOTHING, rate: undefined, meanMs: 0, window: FIRST_WINDOW }
      this.#measured.set(key, each)
    }
    if (each.running++ === 0) each.busySince = now
  }

  /** @param ranMs For how long it ran. */
  ended(key: string, ranMs: number, now: number): void {
    const each = this.#measured.get(key)
    if (each === undefined) return
    each.ended++
    each.ranMs += ranMs
    if (--each.running === 0) each.busyMs += now - each.busySince
  }

  /** An assigned job starts after it has waited for so long. */
  waited(key: string, ms: number): void {
    const each = this.#measured.get(key)
    if (each === undefined) return
    each.waited++
    each.longestMs = Math.max(each.longestMs, ms)
  }

  /** How many jobs may be assigned ahead, with those that already are; 0 until it has been measured. */
  ahead(key: string, now: number): number {
    const each = this.#measured.get(key)
    if (each === undefined) return 0
    measure(each, now)
    if (each.rate === undefined || each.meanMs > AHEAD_MS) return 0
    return Math.min(each.window, Math.floor(each.rate * AHEAD_MS))
  }

  /**
   * Assigned jobs have waited for too long: it is measured again before others are assigned, and these are fewer. Jobs of one answer are late together, so
   * only the first of them makes the window smaller.
   */
  reset(key: string, now: number): void {
    const each = this.#measured.get(key)
    if (each === undefined) return
    const window = each.rate === undefined ? each.window : Math.ceil(each.window / 4)
    Object.assign(each, NOTHING, { rate: undefined, window, busySince: now })
  }
}

const NOTHING = { busyMs: 0, ended: 0, ranMs: 0, waited: 0, longestMs: 0 }

function measure(each: Measured, now: number): void {
  if (each.ended < FEWEST_ENDED) return
  const busyMs = Math.max(0.01, each.busyMs + (each.running > 0 ? now - each.busySince : 0))
  const rate = each.ended / busyMs
  const meanMs = each.ranMs / each.ended
  const isFirst = each.rate === undefined
  each.rate = isFirst ? rate : each.rate! + NEWEST * (rate - each.rate!)
  each.meanMs = isFirst ? meanMs : each.meanMs + NEWEST * (meanMs - each.meanMs)
  if (each.longestMs > AHEAD_MS)
    each.window = Math.max(1, Math.floor((0.8 * each.window * AHEAD_MS) / each.longestMs))
  else if (each.waited >= each.window / 2 && each.longestMs < 0.75 * AHEAD_MS)
    each.window = Math.min(LARGEST_WINDOW, 2 * each.window)
  Object.assign(each, NOTHING, { busySince: now })
}
