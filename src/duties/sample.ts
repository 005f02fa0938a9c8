import type { Queryable } from '../db/database.ts'
import type { Log } from '../engine/log.ts'
import { keepMoment } from '../store/read-moment.ts'
import { type QueueSample, sampleQueues } from '../store/sample-queues.ts'
import { tendAdmission } from '../store/tend-admission.ts'
import type { Duty } from './duty.ts'

/** A point every 10 s makes a line of an hour that fits a screen. A little less, since ticks come with jitter. */
const MOMENT_MS = 9000

/** A lane may be full for hours. It is told when it begins, and so often while it lasts. */
const TELL_AGAIN_MS = 60_000

/** When this process last told of what waits in a database, by class. */
const told = new WeakMap<Queryable, Map<number, number>>()

/**
 * Counts what has been admitted where that is limited, and keeps depth and oldest wait per class, and why what waits is passed
 * over: the first sign of too little, long before a deadline passes. "Overflow" is a word of pools: what no worker can take.
 */
export const sample: Duty = {
  name: 'sample',
  everyMs: 2000,
  async run({ db, log }) {
    await tendAdmission(db)
    const waiting = (await sampleQueues(db)).filter((each) => each.depth > 0)
    await keepMoment(db, MOMENT_MS)
    const blocked = waiting.filter((each) => each.reason !== null)
    tell(db, log, blocked)
    if (waiting.length === 0) return {}
    const depth = waiting.reduce((sum, each) => sum + each.depth, 0)
    return { summary: { waiting: depth, classes: waiting.length, blocked: blocked.length }, uneventful: true }
  },
}

/** Tells of classes that were not held up at the last look, and again of those that have been for a minute. */
function tell(db: Queryable, log: Log, blocked: readonly QueueSample[]): void {
  const before = told.get(db)
  const now = performance.now()
  const after = new Map<number, number>()
  for (const { classId, lane, task, depth, reason, oldestAt } of blocked) {
    const last = before?.get(classId)
    const isNews = last === undefined || now - last >= TELL_AGAIN_MS
    after.set(classId, isNews ? now : last)
    if (isNews) log.info({ lane, task, depth, reason, oldestAt }, 'jobs wait for capacity')
  }
  told.set(db, after)
}
