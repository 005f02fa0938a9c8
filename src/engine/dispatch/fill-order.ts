import { EARLY_TIMER_MS, MAX_COUNT } from '../../model/limits.ts'

/** How long after a hint it looks when so many are free that come first. All at once would keep the first one waiting. */
const LOOK_AFTER_MS = [0, 2, 8, 16, 32]
/** The same where the hint may be about many jobs. */
const STEP_MS = 1
/** With so many workers those who come later spread their looks over a while: 500 over 50 ms. */
const MANY = 20

/** Longer ago than anything: as much as the database takes. */
const ALWAYS_MS = MAX_COUNT

/** A look for jobs: when it was sent, and which lanes it was at. */
export interface Look {
  readonly at: number
  readonly lanes: Iterable<string>
}

/**
 * Where this worker stands in the order in which workers are filled, as far as it was told.
 *
 * The database decides who gets a job. What is kept here only spares it questions: a worker that others come before does not
 * ask first, and looks again when what it left to them may be taken.
 */
export class FillOrder {
  /** Workers that live, and of those who come before this one. Unknown until the first heartbeat. */
  #peers: number | undefined
  #before: number | undefined
  /** Of those who come first: free, as of the last look. */
  #free = 0
  /** Jobs that hints have told of since. Each keeps one of them busy. */
  #told = 0
  /** When it last saw jobs of a lane. Where the last look found nothing, whatever is there now is new. */
  readonly #sawAt = new Map<string, number>()
  /** The first look that left jobs to others, until it may take those all the same. */
  #left: (Look & { readonly dueAt: number }) | undefined

  /** Another incarnation comes last. */
  startOver(): void {
    this.#peers = undefined
    this.#before = undefined
    this.#free = 0
    this.#told = 0
    this.#sawAt.clear()
    this.#left = undefined
  }

  notePeers(peers: number, before: number): void {
    // Nothing is known yet: those before it are taken for free, and let go first.
    if (this.#before === undefined) this.#free = Math.min(before, 4)
    this.#peers = peers
    this.#before = before
    if (before === 0) this.#free = 0
  }

  /** Whether somebody may come before it. `spreads`: it serves a lane where those come first who run less. */
  mustAsk(spreads: boolean, running: number): boolean {
    if (this.#before !== 0) return true
    return spreads && running > 0 && this.#peers !== 1
  }

  /** A look begins: what was left to others long enough is not new any more. */
  begin(now: number): void {
    if (this.#left !== undefined && now >= this.#left.dueAt - EARLY_TIMER_MS) this.#waited()
  }

  /** For how many milliseconds back jobs of a lane are new to this worker. */
  freshMs(lane: string, now: number): number {
    const sawAt = this.#sawAt.get(lane)
    return sawAt === undefined ? ALWAYS_MS : Math.min(ALWAYS_MS, Math.max(0, Math.ceil(now - sawAt)))
  }

  /**
   * What a look told: so many are free that come first. `waitMs`: it left jobs to them, and may take those all the same
   * after that long; null: nothing was there.
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

  /** A look left nothing to anybody. One at no lane was a cycle that took nothing. */
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

  /** Others are free that come first, or were a moment ago. */
  get isBehind(): boolean {
    return this.#free > 0
  }

  /** When to look for what was left to others. Infinite: nothing was. */
  get lookAt(): number {
    return this.#left?.dueAt ?? Number.POSITIVE_INFINITY
  }

  /**
   * How long to wait after a hint that there are jobs.
   *
   * @param one It tells of one job.
   * @param chance From 0 to 1.
   */
  hesitationMs(one: boolean, chance: number): number {
    const free = Math.max(0, this.#free - this.#told)
    if (one) this.#told++
    const spread = (this.#peers ?? 1) < MANY ? 0 : chance * Math.min(50, (this.#before ?? 0) / 10)
    return spread + (one ? LOOK_AFTER_MS[Math.min(free, LOOK_AFTER_MS.length - 1)]! : free * STEP_MS)
  }
}
