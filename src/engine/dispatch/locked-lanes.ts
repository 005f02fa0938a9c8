import type { Log } from '../log.ts'

/** A worker tries again this soon, unless it runs jobs of the lane: then every cycle tries. */
const AGAIN_MS = 200
/** A lane that has been locked for this long is worth a warning. */
const WARN_MS = 1000
/** Not found locked for this long: the next time is another episode. */
const OVER_MS = 5000

interface Episode {
  readonly since: number
  readonly last: number
  readonly warned: boolean
}

/** Lanes whose row another session holds locked, so that their slots cannot be given out. */
export class LockedLanes {
  readonly #log: Log
  readonly #episodes = new Map<string, Episode>()

  constructor(log: Log) {
    this.#log = log
  }

  /** In how long to look again without a hint. */
  lookAgainMs(now: number): number {
    let first = Number.POSITIVE_INFINITY
    for (const { last } of this.#episodes.values())
      if (now - last < OVER_MS) first = Math.min(first, Math.max(0, last + AGAIN_MS - now))
    return first
  }

  /** It was found locked a moment ago: another try would only cost the other lanes time. */
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
          `lane ${lane} is locked by another database session: its slots cannot be given out, other lanes go on. Find the session in pg_stat_activity, or end its transaction`,
        )
    }
  }
}
