/** What happens at which time, earliest first; among equals in the order in which they were added. */
export class EventQueue<E> {
  readonly #heap: { readonly at: number; readonly order: number; readonly event: E }[] = []
  #added = 0

  add(at: number, event: E): void {
    const heap = this.#heap
    heap.push({ at, order: this.#added++, event })
    for (let index = heap.length - 1; index > 0; ) {
      const parent = (index - 1) >> 1
      if (!this.#before(index, parent)) break
      this.#swap(index, parent)
      index = parent
    }
  }

  nextAt(): number | undefined {
    return this.#heap[0]?.at
  }

  take(): E | undefined {
    const heap = this.#heap
    const first = heap[0]
    if (first === undefined) return undefined
    const last = heap.pop()!
    if (heap.length > 0) {
      heap[0] = last
      this.#sink()
    }
    return first.event
  }

  #sink(): void {
    for (let index = 0; ; ) {
      let least = index
      for (const child of [2 * index + 1, 2 * index + 2])
        if (child < this.#heap.length && this.#before(child, least)) least = child
      if (least === index) return
      this.#swap(index, least)
      index = least
    }
  }

  #before(one: number, other: number): boolean {
    const [a, b] = [this.#heap[one]!, this.#heap[other]!]
    return a.at === b.at ? a.order < b.order : a.at < b.at
  }

  #swap(one: number, other: number): void {
    const kept = this.#heap[one]!
    this.#heap[one] = this.#heap[other]!
    this.#heap[other] = kept
  }
}
