import { promoteDue } from '../store/promote-due.ts'
import type { Duty } from './duty.ts'

const CHUNK = 5000

/** Moves jobs whose time has come, by `runAt` or after a backoff, into the queue. */
export const promote: Duty = {
  name: 'promote',
  everyMs: 1000,
  async run({ db }) {
    let total = 0
    for (;;) {
      const { promoted, nextInMs } = await promoteDue(db, CHUNK)
      total += promoted
      if (promoted < CHUNK)
        return { nextDueInMs: nextInMs, ...(total > 0 && { summary: { promoted: total } }) }
    }
  },
}
