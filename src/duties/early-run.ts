/** Between two ticks of the runner, something is done at most this often. */
const SOON_MS = 20

/**
 * Does something before the runner's next tick, at the moment it is known to be needed.
 *
 * Modes: `idle` -> `armed` by `within()` -> `idle` when it has been done; `stopped` by `stop()`, for good.
 */
export class EarlyRun {
  readonly #work: () => Promise<void>
  readonly #horizonMs: number
  #timer: NodeJS.Timeout | undefined
  #at = 0
  #working: Promise<void> | undefined
  #stopped = false

  /** @param horizonMs What is further away than this is left to the runner's tick. */
  constructor(work: () => Promise<void>, horizonMs: number) {
    this.#work = work
    this.#horizonMs = horizonMs
  }

  /** It is needed in so many milliseconds; `null`: not at all. The earliest one counts. */
  within(ms: number | null): void {
    if (ms === null || ms > this.#horizonMs || this.#stopped) return
    const at = performance.now() + ms
    if (this.#timer !== undefined && this.#at <= at) return
    clearTimeout(this.#timer)
    this.#at = at
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined
        this.#working = this.#work()
      },
      // Many processes know of the same moment, and there may be one after another: not each at its own instant.
      Math.max(SOON_MS * (1 + Math.random()), Math.ceil(ms)),
    )
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#working
  }
}
