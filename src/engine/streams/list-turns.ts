/** Between two looks at one list. */
const LIST_MS = 1000
/** Looks for one reader take at most a tenth of one connection's time. */
const SHARE = 10
/** What a reader may take at once after a pause: one that goes from one filter to the next does not wait. */
const BURST_MS = 10_000

/**
 * Whose list is looked at next: one of the reader that has had least, and of its lists the one that has waited longest.
 * Somebody with a thousand lists sees each of them seldom, and delays nobody else by more than one look.
 */
export class ListTurns {
  /** When each list was last looked at. */
  readonly #seenAt = new Map<string, number>()
  /** From when on each reader may be looked for again, were there no burst. */
  readonly #freeAt = new Map<string, number>()

  /**
   * @param lists What is read now: the readers of each list.
   * @returns The list to look at now, or in how many milliseconds there is one; `undefined` while there are none.
   */
  next(
    lists: ReadonlyMap<string, ReadonlySet<string>>,
    now: number,
  ): { readonly key: string } | { readonly inMs: number } | undefined {
    let best: { key: string; freeAt: number; seenAt: number } | undefined
    let soonest = Number.POSITIVE_INFINITY
    for (const [key, readers] of lists) {
      const seenAt = this.#seenAt.get(key) ?? Number.NEGATIVE_INFINITY
      const freeAt = this.#freeFor(readers)
      const dueAt = Math.max(seenAt + LIST_MS, freeAt)
      if (dueAt > now) soonest = Math.min(soonest, dueAt)
      else if (best === undefined || freeAt < best.freeAt || (freeAt === best.freeAt && seenAt < best.seenAt))
        best = { key, freeAt, seenAt }
    }
    if (best !== undefined) return { key: best.key }
    return soonest === Number.POSITIVE_INFINITY ? undefined : { inMs: soonest - now }
  }

  /** A list was looked at; the look began at `now`. Readers that share a list share what it costs. */
  looked(key: string, readers: ReadonlySet<string>, now: number, costMs: number): void {
    this.#seenAt.set(key, now)
    for (const reader of readers) {
      const before = Math.max(this.#freeAt.get(reader) ?? Number.NEGATIVE_INFINITY, now - BURST_MS)
      this.#freeAt.set(reader, before + (SHARE * costMs) / readers.size)
    }
  }

  /** Forgets what nobody reads any more. A reader in debt is kept until it is paid: to come back must not help. */
  forget(lists: ReadonlyMap<string, ReadonlySet<string>>, now: number): void {
    for (const key of this.#seenAt.keys()) if (!lists.has(key)) this.#seenAt.delete(key)
    for (const [reader, freeAt] of this.#freeAt) if (freeAt < now - BURST_MS) this.#freeAt.delete(reader)
  }

  #freeFor(readers: ReadonlySet<string>): number {
    return Math.min(...[...readers].map((reader) => this.#freeAt.get(reader) ?? Number.NEGATIVE_INFINITY))
  }
}
