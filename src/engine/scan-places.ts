/** Where a scan of a class begins: just after this entry of its ready index. */
interface Place {
  readonly rank: number
  readonly id: string
}

const TOP: Place = { rank: -2_147_483_648, id: '0' }

/** A place is used for at least this long before the next scan from the top. */
const SHORTEST_MS = 50

/**
 * Remembers, per class, where the last scan ended.
 *
 * Scans start from the top, so that order is exact. But entries of jobs taken a
 * moment ago may still lie there, and under a transaction held open they stay:
 * from the top the drain then falls from 14,600 to 4,100 jobs a second, with a
 * remembered place it stays flat. So a place is used until 50 ms, or ten times
 * what the last scan from the top took, have passed. Lanes with one slot promise
 * strict order and always scan from the top.
 */
export class ScanPlaces {
  readonly #places = new Map<number, Place & { readonly topUntil: number }>()

  take(classes: readonly { id: number; slots: number | null }[], now: number): Place[] {
    return classes.map((each) => {
      const place = this.#places.get(each.id)
      return place === undefined || each.slots === 1 || now >= place.topUntil ? TOP : place
    })
  }

  /** Learns from an answer: row[1] is the class, row[4] the rank, row[0] the id. */
  put(
    classes: readonly { id: number; max: number }[],
    rows: readonly (readonly [string | null, number, number, number, number, ...unknown[]])[],
    free: number,
    now: number,
    tookMs: number,
  ): void {
    if (classes.length === 0) return
    const full = rows.length >= free
    for (const { id } of classes) {
      const before = this.#places.get(id)
      let last: Place | undefined
      for (const row of rows) {
        if (row[1] === id && row[0] !== null && (last === undefined || comesAfter(row[4], row[0], last))) {
          last = { rank: row[4], id: row[0] }
        }
      }
      // An answer that was not full saw the end of the queue: what there is now lies anywhere.
      if (!full || last === undefined) this.#places.delete(id)
      else {
        const fromTop = before === undefined || now >= before.topUntil
        this.#places.set(id, {
          ...last,
          topUntil: fromTop ? now + Math.max(SHORTEST_MS, 10 * tookMs) : before.topUntil,
        })
      }
    }
  }
}

function comesAfter(rank: number, id: string, than: Place): boolean {
  if (rank !== than.rank) return rank > than.rank
  return id.length === than.id.length ? id > than.id : id.length > than.id.length
}
