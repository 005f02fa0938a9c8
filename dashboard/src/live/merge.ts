/** 10,000 changes a second are drawn as four. */
export const MERGE_MS = 250

/**
 * Collects what arrives and hands it on together: the first waits a quarter of a second for company, and whatever comes
 * meanwhile goes with it.
 */
export class Merge<Event> {
  readonly #deliver: (events: readonly Event[]) => void
  #waiting: Event[] = []
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(deliver: (events: readonly Event[]) => void) {
    this.#deliver = deliver
  }

  add(event: Event): void {
    this.#waiting.push(event)
    this.#timer ??= setTimeout(() => this.flush(), MERGE_MS)
  }

  /** Hands on at once what waits. */
  flush(): void {
    const events = this.#waiting
    this.stop()
    if (events.length > 0) this.#deliver(events)
  }

  /** Forgets what waits. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#waiting = []
  }
}
