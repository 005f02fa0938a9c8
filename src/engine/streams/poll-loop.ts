/**
 * Looks again and again, one look at a time: each says in how many milliseconds the next is due, or `undefined` while there is
 * nothing to look at.
 */
export class PollLoop {
  readonly #look: () => Promise<number | undefined>
  #timer: NodeJS.Timeout | undefined
  #dueAt = Number.POSITIVE_INFINITY
  #looking: Promise<void> | undefined
  #stopped = false

  /** @param look Does not throw. */
  constructor(look: () => Promise<number | undefined>) {
    this.#look = look
  }

  /** Makes sure that there is a look within so many milliseconds. One that is under way says itself when the next is due. */
  within(ms: number): void {
    if (this.#stopped || this.#looking !== undefined) return
    const dueAt = performance.now() + ms
    if (dueAt >= this.#dueAt) return
    this.pause()
    this.#dueAt = dueAt
    this.#timer = setTimeout(() => this.#start(), ms)
  }

  /** Until it is asked again. */
  pause(): void {
    clearTimeout(this.#timer)
    this.#dueAt = Number.POSITIVE_INFINITY
  }

  /** For good, once the look that is under way has ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.pause()
    await this.#looking
  }

  #start(): void {
    this.#dueAt = Number.POSITIVE_INFINITY
    this.#looking = this.#look().then((ms) => {
      this.#looking = undefined
      if (ms !== undefined) this.within(ms)
    })
  }
}
