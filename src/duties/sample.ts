import { keepMoment } from '../store/read-moment.ts'
import { sampleQueues } from '../store/sample-queues.ts'
import { tendAdmission } from '../store/tend-admission.ts'
import type { Duty } from './duty.ts'

/** A point every 10 s makes a line of an hour that fits a screen. A little less, since ticks come with jitter. */
const MOMENT_MS = 9000

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
    for (const each of blocked) {
      const { lane, task, depth, reason } = each
      log.info({ lane, task, depth, reason, oldestAt: each.oldestAt }, 'jobs wait for capacity')
    }
    if (waiting.length === 0) return {}
    const depth = waiting.reduce((sum, each) => sum + each.depth, 0)
    return {
      summary: { waiting: depth, classes: waiting.length, blocked: blocked.length },
      uneventful: blocked.length === 0,
    }
  },
}
