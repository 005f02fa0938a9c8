/** Holds tasks until a test lets them go on. */
export class Gate {
  readonly #opened: Promise<void>
  #open: () => void = () => {}
  readonly #arrivals: string[] = []
  #watchers: (() => void)[] = []

  constructor() {
    this.#opened = new Promise((resolve) => {
      this.#open = resolve
    })
  }

  /** Who has come to the gate so far, in order. */
  get arrivals(): readonly string[] {
    return this.#arrivals
  }

  /** For the task: says that it is here, and waits for `open()`. */
  async pass(name = ''): Promise<void> {
    this.#arrivals.push(name)
    for (const watcher of this.#watchers.splice(0)) watcher()
    await this.#opened
  }

  /** For the test: waits until so many have come. */
  async arrived(count = 1, withinMs = 60_000): Promise<void> {
    const end = performance.now() + withinMs
    while (this.#arrivals.length < count) {
      const left = end - performance.now()
      if (left <= 0)
        throw new Error(`${this.#arrivals.length} of ${count} came to the gate within ${withinMs} ms`)
      let timer: NodeJS.Timeout | undefined
      await new Promise<void>((resolve) => {
        this.#watchers.push(resolve)
        timer = setTimeout(resolve, left)
      })
      clearTimeout(timer)
    }
  }

  open(): void {
    this.#open()
  }
}
