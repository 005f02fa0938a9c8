/** How many composites are taken at once, and for how long. */
export interface Pace {
  readonly batch: number
  readonly takenMs: number
}

/** Wake-ups read at once; whoever takes a composite and says nothing for 5 s has died, and another process goes on. */
export const USUAL_PACE: Pace = { batch: 200, takenMs: 5000 }

const LONGEST_TAKEN_MS = 300_000

/**
 * The pace after a batch that took so long. Who needs longer than it may is overtaken, and what it decided is left out; two
 * processes that are both too slow would overtake each other for ever. So a slow one takes fewer, for longer.
 */
export function nextPace(pace: Pace, tookMs: number): Pace {
  if (tookMs > pace.takenMs / 2)
    return {
      batch: Math.max(1, Math.floor(pace.batch / 2)),
      takenMs: Math.min(LONGEST_TAKEN_MS, Math.max(pace.takenMs, Math.ceil(tookMs)) * 2),
    }
  if (tookMs > pace.takenMs / 8) return pace
  return {
    batch: Math.min(USUAL_PACE.batch, pace.batch * 2),
    takenMs: Math.max(USUAL_PACE.takenMs, Math.floor(pace.takenMs / 2)),
  }
}
