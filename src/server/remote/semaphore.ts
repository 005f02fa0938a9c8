/** Lets a few in at a time; the others wait in the order in which they came. */
export class Semaphore {
  readonly #width: number
  readonly #waiting: (() => void)[] = []
  #inside = 0

  constructor(width: number) {
    this.#width = width
  }

  async pass<T>(work: () => Promise<T>): Promise<T> {
    if (this.#inside < this.#width) this.#inside++
    // Whoever leaves hands its place over.
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#inside--
      else next()
    }
  }
}
