import { EARLY_TIMER_MS, MAX_COUNT } from '../../model/limits.ts'

/**
 * How long after a hint to look, by the number of free workers that come first. If all looked at once, the first one
 * would be delayed.
 */
const LOOK_AFTER_MS = [0, 2, 8, 16, 32]
/** The same for hints that may concern many jobs. */
const STEP_MS = 1
/** With this many workers, later ones spread their looks over a while: 500 over 50 ms. */
const MANY = 20

/** Longer ago than anything: as much as the database takes. */
const ALWAYS_MS = MAX_COUNT

/** A look for jobs: when it was sent, and at which lanes. */
export interface Look {
  readonly at: number
  readonly lanes: Iterable<string>
}

/**
 * The position of this worker in the order in which workers are filled, as far as it knows.
 *
 * The database decides which worker gets a job. This only avoids needless queries: a worker that is not first does not
 * look first, and looks again when it may take the jobs it left to others.
 */
export class FillOrder {
  /** The number of live workers, and of those that come first. Unknown until the first heartbeat. */
  #peers: number | undefined
  #before: number | undefined
  /** How many of the workers that come first were free at the last look. */
  #free = 0
  /** How many jobs later hints announced. Each keeps one of those workers busy. */
  #told = 0
  /** When it last saw jobs of a lane. After a look that found none, all jobs there are new. */
  readonly #sawAt = new Map<string, number>()
  /** The first look that left jobs to others, until this worker may take them. */
  #left: (Look & { readonly dueAt: number }) | undefined

  /** The worker has a new incarnation and comes last. */
  startOver(): void {
    this.#peers = undefined
    this.#before = undefined
    this.#free = 0
    this.#told = 0
    this.#sawAt.clear()
    this.#left = undefined
  }

  notePeers(peers: number, before: number): void {
    // Nothing is known yet: earlier workers are assumed to be free and may go first.
    if (this.#before === undefined) this.#free = Math.min(before, 4)
    this.#peers = peers
    this.#before = before
    if (before === 0) this.#free = 0
  }

  /**
   * Whether another worker may come first. `spreads`: it serves a lane in which workers with fewer running jobs come
   * first.
   */
  mustAsk(spreads: boolean, running: number): boolean {
    if (this.#before !== 0) return true
    return spreads && running > 0 && this.#peers !== 1
  }

  /** Begins a look: jobs that were left to others for long enough are no longer new. */
  begin(now: number): void {
    if (this.#left !== undefined && now >= this.#left.dueAt - EARLY_TIMER_MS) this.#waited()
  }

  /** For how many milliseconds jobs of a lane count as new to this worker. */
  freshMs(lane: string, now: number): number {
    const sawAt = this.#sawAt.get(lane)
    return sawAt === undefined ? ALWAYS_MS : Math.min(ALWAYS_MS, Math.max(0, Math.ceil(now - sawAt)))
  }

  /**
   * Records a look that left jobs to others: `free` workers that come first were free. `waitMs`: when this worker may
   * take the jobs; null: there were none.
   */
  left(free: number, waitMs: number | null, look: Look, now = look.at): void {
    this.#free = free
    this.#told = 0
    if (waitMs !== null) this.#left ??= { ...look, dueAt: now + waitMs }
    else {
      this.#left = undefined
      for (const lane of look.lanes) this.#sawAt.delete(lane)
    }
  }

  /** Records a look that left nothing to others. A look without lanes was a cycle that took nothing. */
  leftNothing(taken: number, look: Look): void {
    if (taken > 0) this.#free = 0
    this.#told = 0
    this.#waited()
    for (const lane of look.lanes) {
      if (taken > 0) this.#sawAt.set(lane, look.at)
      else this.#sawAt.delete(lane)
    }
  }

  #waited(): void {
    for (const lane of this.#left?.lanes ?? []) this.#sawAt.set(lane, this.#left!.at)
    this.#left = undefined
  }

  /** Workers that come first are free, or were a moment ago. */
  get isBehind(): boolean {
    return this.#free > 0
  }

  /** When to look for jobs that were left to others. Infinite if none were. */
  get lookAt(): number {
    return this.#left?.dueAt ?? Number.POSITIVE_INFINITY
  }

  /**
   * How long to wait after a hint before looking.
   *
   * @param one The hint announces one job.
   * @param chance From 0 to 1.
   */
  hesitationMs(one: boolean, chance: number): number {
    const free = Math.max(0, this.#free - this.#told)
    if (one) this.#told++
    const spread = (this.#peers ?? 1) < MANY ? 0 : chance * Math.min(50, (this.#before ?? 0) / 10)
    return spread + (one ? LOOK_AFTER_MS[Math.min(free, LOOK_AFTER_MS.length - 1)]! : free * STEP_MS)
  }
}
