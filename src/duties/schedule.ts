import { fireDue } from '../engine/schedules/fire-schedules.ts'
import { followClock } from '../engine/schedules/follow-clock.ts'
import { nextTickInMs } from '../store/next-tick.ts'
import type { Duty } from './duty.ts'

/** Of one run; if more is due, the next begins at once. An owner with a thousand schedules must not keep the process from what others wait for. */
const BUDGET_MS = 500

/** Submits the jobs of schedules whose time has come. */
export const schedule: Duty = {
  name: 'schedule',
  everyMs: 1000,
  async run({ db, log }) {
    await followClock(db)
    const { fired, skipped, more } = await fireDue(db, log, { budgetMs: BUDGET_MS })
    const nextTick = more ? 0 : await nextTickInMs(db)
    return { nextTickInMs: nextTick, ...(fired + skipped > 0 && { summary: { fired, skipped } }) }
  },
}
