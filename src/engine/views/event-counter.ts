import type { Queryable } from '../../db/database.ts'
import { addEventCount } from '../../store/add-event-count.ts'

/** Counted in memory for so long before it is written down. */
const FLUSH_MS = 2000

/**
 * Counts what happens often and leaves no trace: refusals, which cost a server least when they touch nothing. What was
 * counted in the last two seconds of a process is lost with it.
 */
export class EventCounter {
  readonly #db: Queryable
  readonly #name: string
  #count = 0
  #timer: NodeJS.Timeout | undefined
  #flushing: Promise<void> | undefined

  constructor(db: Queryable, name: string) {
    this.#db = db
    this.#name = name
  }

  add(count = 1): void {
    this.#count += count
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#flushing = this.#flush()
    }, FLUSH_MS).unref()
  }

  /** Writes down what is left. */
  async close(): Promise<void> {
    clearTimeout(this.#timer)
    await this.#flushing
    await this.#flush()
  }

  async #flush(): Promise<void> {
    const count = this.#count
    this.#count = 0
    // For people only: what cannot be written down is forgotten.
    if (count > 0) await addEventCount(this.#db, this.#name, count).catch(() => {})
  }
}
