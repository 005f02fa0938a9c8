import type { Queryable } from '../db/database.ts'
import type { Log } from '../engine/log.ts'
import { maintainLedger } from '../store/maintain-ledger.ts'
import { nearsDeadline } from '../store/nears-deadline.ts'
import { keepSnapshot } from '../store/read-snapshot.ts'
import { recordSaturation } from '../store/record-saturation.ts'
import { type QueueSample, sampleQueues } from '../store/sample-queues.ts'
import type { Duty } from './duty.ts'

/** A point every 10 s makes a line of an hour that fits a screen. A little less, since ticks come with jitter. */
const MOMENT_MS = 9000

/** A shorter wait is no news: every lane that is well used is full for a moment now and then. */
const WORTH_A_LINE_MS = 1000
/** Two ticks, so that the line comes before the deadline of a job passes. */
const DEADLINE_MS = 4000
/** A lane that is full again sooner is in the same episode. */
const QUIET_MS = 60_000

/**
 * Counts what has been admitted where that is limited, and keeps depth and oldest wait per class, and why what waits is passed
 * over: the first sign of too little, long before a deadline passes. "Overflow" is a word of pools: what no worker can take.
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

/** One line per lane when its jobs begin to wait for capacity, and one when that is over: not one per tick or job. */
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
