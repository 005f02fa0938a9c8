import type { Log } from '../log.ts'

/** A worker retries after this time, unless it runs jobs of the lane: then every cycle does. */
const AGAIN_MS = 200
/** A lane that is locked for this long is reported. */
const WARN_MS = 1000
/** After this time without finding it locked, the next time counts as new. */
const OVER_MS = 5000

interface Episode {
  readonly since: number
  readonly last: number
  readonly warned: boolean
}

/** Lanes whose row another session has locked, so that their slots cannot be assigned. */
export class LockedLanes {
  readonly #log: Log
  readonly #episodes = new Map<string, Episode>()

  constructor(log: Log) {
    this.#log = log
  }

  /** How soon to look again without a hint. */
  lookAgainMs(now: number): number {
    let first = Number.POSITIVE_INFINITY
    for (const { last } of this.#episodes.values())
      if (now - last < OVER_MS) first = Math.min(first, Math.max(0, last + AGAIN_MS - now))
    return first
  }

  /** It was recently found locked, and another try would delay the other lanes. */
  isSkipped(lane: string, now: number): boolean {
    const episode = this.#episodes.get(lane)
    return episode !== undefined && now - episode.last < AGAIN_MS
  }

  /** @param locked Lanes that the last cycle found locked. @param tried Those that it looked for jobs in. */
  note(locked: readonly string[], tried: ReadonlySet<string>, now: number): void {
    for (const lane of tried) if (!locked.includes(lane)) this.#episodes.delete(lane)
    for (const lane of locked) {
      const known = this.#episodes.get(lane)
      const since = known !== undefined && now - known.last < OVER_MS ? known.since : now
      const warns = now - since >= WARN_MS && known?.warned !== true
      this.#episodes.set(lane, { since, last: now, warned: warns || (known?.warned === true && since < now) })
      if (warns)
        this.#log.warn(
          { lane, forMs: Math.round(now - since) },
          `lane ${lane} is locked by another database session, so its slots cannot be assigned; other lanes are not affected. Find the session in pg_stat_activity, or end its transaction`,
        )
    }
  }
}
