import type { Queryable } from '../db/database.ts'
import type { Log } from '../engine/log.ts'
import { maintainLedger } from '../store/maintain-ledger.ts'
import { nearsDeadline } from '../store/nears-deadline.ts'
import { keepSnapshot } from '../store/read-snapshot.ts'
import { recordSaturation } from '../store/record-saturation.ts'
import { type QueueSample, sampleQueues } from '../store/sample-queues.ts'
import type { Duty } from './duty.ts'

/** A chart of one hour with a point every 10 s fits a screen. The interval is slightly shorter because ticks have jitter. */
const MOMENT_MS = 9000

/** Shorter waits are not logged unless a deadline is near: every busy lane is full for a moment now and then. */
const WORTH_A_LINE_MS = 1000
/** Two ticks, so that the wait is logged before the deadline of a job passes. */
const DEADLINE_MS = 4000
/** If a lane is full again within this time, the same episode continues. */
const QUIET_MS = 60_000

/**
 * Maintains the ledger of admitted jobs. Records for each class how many jobs wait, how long the oldest has waited, and what blocks them, which
 * shows a lack of capacity long before a deadline passes. This is not overflow: in pools, that word means jobs that no worker can take.
 */
export const sample: Duty = {
  name: 'sample',
  everyMs: 2000,
  async run({ db, log }) {
    await maintainLedger(db)
    const waiting = (await sampleQueues(db)).filter((each) => each.depth > 0)
    await keepSnapshot(db, MOMENT_MS)
    const blocked = waiting.filter((each) => each.reason !== null)
    await reportSaturation(db, log, blocked)
    if (waiting.length === 0) return {}
    const depth = waiting.reduce((sum, each) => sum + each.depth, 0)
    return { summary: { waiting: depth, classes: waiting.length, blocked: blocked.length }, uneventful: true }
  },
}

/** Logs one line per lane when its jobs begin to wait for capacity, and one when they no longer do, not one per tick or job. */
async function reportSaturation(db: Queryable, log: Log, blocked: readonly QueueSample[]): Promise<void> {
  const nears = blocked.length > 0 && (await nearsDeadline(db, DEADLINE_MS))
  const worth = blocked.filter((each) => nears || each.waitedMs >= WORTH_A_LINE_MS)
  const lanes = [...new Set(worth.map(({ lane }) => lane))].map((lane) => {
    const classes = worth.filter((each) => each.lane === lane)
    return {
      lane,
      depth: classes.reduce((sum, { depth }) => sum + depth, 0),
      waitedMs: Math.max(...classes.map(({ waitedMs }) => waitedMs)),
    }
  })
  for (const { lane, change, deepest, longestMs, lastedMs } of await recordSaturation(db, lanes, QUIET_MS)) {
    if (change === 'ended') {
      log.info({ lane, deepest, longestMs, lastedMs }, 'jobs no longer wait for capacity')
      continue
    }
    const waiting = worth.filter((each) => each.lane === lane)
    const tasks = waiting.map(({ task, depth, reason }) => ({ task, depth, reason }))
    log.warn({ lane, depth: deepest, oldestWaitMs: longestMs, tasks }, 'jobs wait for capacity')
  }
}
