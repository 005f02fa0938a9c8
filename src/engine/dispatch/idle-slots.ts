/** How long idle slots are kept: under light load a grow and a shrink per job cost 10.4 ms a cycle instead of 3.4 in a prototype. */
const KEEP_MS = 200

/**
 * How many slots to keep in each limited lane: the most that were busy during the last 200 to 400 ms. Released at once
 * when another worker waits for slots.
 */
export class IdleSlots {
  readonly #running = new Map<string, number>()
  #limited = new Set<string>()
  #peak = new Map<string, number>()
  #earlier = new Map<string, number>()
  #turnedAt = 0

  setLimited(lanes: readonly string[]): void {
    this.#limited = new Set(lanes)
  }

  /** Held jobs of a lane without a recorded outcome. */
  running(lane: string): number {
    return this.#running.get(lane) ?? 0
  }

  started(lane: string): void {
    const running = this.running(lane) + 1
    this.#running.set(lane, running)
    if (running > (this.#peak.get(lane) ?? 0)) this.#peak.set(lane, running)
  }

  ended(lane: string): void {
    this.#running.set(lane, this.running(lane) - 1)
  }

  /** True if more slots are kept in some lane than jobs run there. */
  get holdsIdle(): boolean {
    for (const lane of this.#limited) {
      if (this.#kept(lane) > this.running(lane)) return true
    }
    return false
  }

  dropIdle(): void {
    this.#earlier = new Map()
    this.#peak = new Map(this.#running)
  }

  /** The slots to keep per lane. Advances the window when it is due. */
  keep(lanes: readonly string[], now: number): number[] {
    if (now - this.#turnedAt >= KEEP_MS) {
      this.#turnedAt = now
      this.#earlier = this.#peak
      this.#peak = new Map(this.#running)
    }
    return lanes.map((lane) => (this.#limited.has(lane) ? this.#kept(lane) : 0))
  }

  #kept(lane: string): number {
    return Math.max(this.#peak.get(lane) ?? 0, this.#earlier.get(lane) ?? 0)
  }
}
