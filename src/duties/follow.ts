import { moveJobsWithTasks } from '../store/move-jobs-with-tasks.ts'
import { spreadPriority } from '../store/spread-priority.ts'
import type { Duty } from './duty.ts'

// One transaction each: a claim steps over what it holds.
const BATCH = 1000

/** At 50 ms a batch a tick takes about a second, after which another process may claim the duty. */
const MOST_BATCHES = 20

/**
 * Moves jobs that have not started to the lane that their task was moved to, and gives jobs below a workflow the priority that it was
 * given. The two take turns, so neither waits behind the other. The next tick continues whatever is left.
 */
export const follow: Duty = {
  name: 'follow',
  everyMs: 1000,
  async run({ db, isStopping }) {
    const left = { moved: true, reprioritised: true }
    let [moved, reprioritised] = [0, 0]
    for (
      let batch = 0;
      batch < MOST_BATCHES && (left.moved || left.reprioritised) && !isStopping();
      batch++
    ) {
      if (left.moved) {
        const done = await moveJobsWithTasks(db, BATCH)
        moved += done.moved
        left.moved = done.more
      }
      if (left.reprioritised) {
        const done = await spreadPriority(db, BATCH)
        reprioritised += done.changed
        left.reprioritised = done.more
      }
    }
    if (moved + reprioritised === 0) return {}
    return { summary: { ...(moved > 0 && { moved }), ...(reprioritised > 0 && { reprioritised }) } }
  },
}
