/** The shortest delay before an early run, which limits how often the work runs between two ticks. */
const SOON_MS = 20

/**
 * Runs work before the runner's next tick, at the time it is known to be needed.
 *
 * Modes: `idle` -> `armed` by `within()` -> `idle` when the timer fires; `stopped` by `stop()`, for good.
 */
export class EarlyRun {
  readonly #work: () => Promise<void>
  readonly #horizonMs: number
  #timer: NodeJS.Timeout | undefined
  #at = 0
  #working: Promise<void> | undefined
  #stopped = false

  /** @param horizonMs Work that is needed later than this is left to the runner's ticks. */
  constructor(work: () => Promise<void>, horizonMs: number) {
    this.#work = work
    this.#horizonMs = horizonMs
  }

  /** Arms the timer for work that is needed in `ms` milliseconds, or not at all if `null`. If it is armed already, the earlier time counts. */
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
      // Many processes arm a timer for the same moment: spread them.
      Math.max(SOON_MS * (1 + Math.random()), Math.ceil(ms)),
    )
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#working
  }
}
