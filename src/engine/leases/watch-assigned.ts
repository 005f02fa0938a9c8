import { AssignedCells, type Recalled } from '../../model/assigned-cells.ts'

/** A loop that has not ticked for this long is blocked, and starts none of the jobs that are assigned to it. */
const RECALL_AFTER_MS = 300
const RECALL_CHECK_MS = 50
/** An order that keeps failing is sent once in so long: where the database is away, every blocked worker asks for a connection each time. */
const LONGEST_RETRY_MS = 1000

export interface HandBack {
  /**
   * Returns jobs to the queue. Sent again after every error, as long as the loop is blocked: nothing else takes them back, and beats may keep their
   * leases alive. An order that was carried out although its answer was lost changes nothing the second time.
   */
  handBack(recalled: Recalled): Promise<void>
}

/**
 * For a heartbeat thread: takes back what a blocked loop has been assigned, for as long as it is blocked.
 *
 * @param shared Its first number is the loop's tick.
 */
export function watchAssigned(shared: SharedArrayBuffer, assigned: SharedArrayBuffer, how: HandBack): void {
  const ticks = new Int32Array(shared)
  const cells = new AssignedCells(assigned)
  let lastTick = ticks[0]!
  let tickedAt = performance.now()
  let watchedAt = performance.now()
  /** What was taken back from the loop and is still to be handed back. */
  let owed: Recalled | undefined
  let isHandingBack = false
  /** When to send it again at the earliest, and how long to wait after the next error. */
  let retryAt = 0
  let retryMs = RECALL_CHECK_MS

  const handBackOwed = async (recalled: Recalled): Promise<void> => {
    isHandingBack = true
    try {
      await how.handBack(recalled)
      if (owed === recalled) owed = undefined
    } catch {
      if (owed === recalled) {
        retryAt = performance.now() + retryMs
        retryMs = Math.min(2 * retryMs, LONGEST_RETRY_MS)
      }
    } finally {
      isHandingBack = false
    }
  }
  const watch = () => {
    const now = performance.now()
    // If this thread stood still too, nothing is known about the loop.
    if (ticks[0] !== lastTick || now - watchedAt > RECALL_AFTER_MS) {
      lastTick = ticks[0]!
      tickedAt = now
      // The loop's resync takes back what is left: it starts none of them.
      owed = undefined
    }
    watchedAt = now
    if (now - tickedAt >= RECALL_AFTER_MS && owed === undefined) {
      // Once more later, if the loop is still blocked: a cycle that was under way may have assigned more meanwhile.
      tickedAt = now
      owed = cells.recall()
      retryAt = now
      retryMs = RECALL_CHECK_MS
    }
    if (owed !== undefined && !isHandingBack && now >= retryAt) void handBackOwed(owed)
  }
  setInterval(watch, RECALL_CHECK_MS).unref()
}
