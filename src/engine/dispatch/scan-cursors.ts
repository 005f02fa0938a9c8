/** The position after which a scan of a class begins in its ready index. */
interface ScanCursor {
  readonly rank: number
  readonly id: string
}

const TOP: ScanCursor = { rank: -2_147_483_648, id: '0' }

/** A cursor is used for at least this long before the next scan from the top. */
const SHORTEST_MS = 50

/** A cycle walks the dead entries about twice, and a tenth of the time is enough for that. */
const SCAN_SHARE = 20

interface Memory {
  /** The last entry taken. */
  cursor: ScanCursor | undefined
  /** Until this time, scans start at the cursor. */
  until: number
  /** How long the last scan from the top took, in the database; 0: not long enough to count. */
  topMs: number
  fromTop: boolean
}

/**
 * Remembers, per class, where the last scan ended.
 *
 * Scans start from the top, so that order is exact. But entries of jobs taken a
 * moment ago may still lie there, and under a transaction held open they stay:
 * in a prototype the drain from the top then fell from 14,600 to 4,100 jobs a
 * second; with a remembered cursor it stayed flat. So a cursor is used until 50 ms, or twenty times
 * what the last scan from the top took, have passed: at most a tenth of the time
 * goes into stepping over the dead. A scan that reached the end of the queue, or found no slot for the
 * jobs it saw, goes back to the top at once while that is cheap. Lanes with one slot promise strict
 * order and always scan from the top.
 *
 * Only what the database measured counts. The time of the whole cycle also contains what a busy machine adds, and jobs of
 * higher priority would wait for the cursor to expire although nothing is dead.
 */
export class ScanCursors {
  readonly #memories = new Map<number, Memory>()
  #topDueAt = Number.POSITIVE_INFINITY

  take(classes: readonly { id: number; slots: number | null }[], now: number): ScanCursor[] {
    return classes.map((each) => {
      const memory = this.#memoryOf(each.id)
      memory.fromTop = memory.cursor === undefined || each.slots === 1 || now >= memory.until
      return memory.fromTop ? TOP : memory.cursor!
    })
  }

  /**
   * Learns from an answer: row[1] is the class, row[4] the rank, row[0] the id.
   *
   * @param scanMs How long the scans took, as the database reports it if it was long.
   */
  put(
    classes: readonly { id: number }[],
    rows: readonly (readonly [string | null, number, number, number, number, ...unknown[]])[],
    free: number,
    now: number,
    scanMs = 0,
  ): void {
    const full = rows.length >= free
    this.#topDueAt = Number.POSITIVE_INFINITY
    for (const { id } of classes) {
      const memory = this.#memoryOf(id)
      const last = lastOf(id, rows)
      if (last !== undefined) memory.cursor = last
      if (memory.fromTop) {
        memory.topMs = scanMs
        memory.until = now + Math.max(SHORTEST_MS, SCAN_SHARE * scanMs)
      }
      if (full && last !== undefined) continue
      if (memory.topMs === 0) memory.until = 0
      if (!memory.fromTop) this.#topDueAt = Math.min(this.#topDueAt, memory.until)
    }
  }

  /**
   * When the next scan from the top is due. Infinite unless a scan from a cursor found too little: a job that returned
   * to the queue may lie before the cursor, and an idle worker must not sleep past it.
   */
  get topDueAt(): number {
    return this.#topDueAt
  }

  #memoryOf(id: number): Memory {
    let memory = this.#memories.get(id)
    if (memory === undefined) {
      memory = { cursor: undefined, until: 0, topMs: 0, fromTop: true }
      this.#memories.set(id, memory)
    }
    return memory
  }
}

function lastOf(
  classId: number,
  rows: readonly (readonly [string | null, number, number, number, number, ...unknown[]])[],
): ScanCursor | undefined {
  let last: ScanCursor | undefined
  for (const row of rows) {
    if (row[1] === classId && row[0] !== null && (last === undefined || comesAfter(row[4], row[0], last))) {
      last = { rank: row[4], id: row[0] }
    }
  }
  return last
}

function comesAfter(rank: number, id: string, than: ScanCursor): boolean {
  if (rank !== than.rank) return rank > than.rank
  return id.length === than.id.length ? id > than.id : id.length > than.id.length
}
