import { followTasks } from '../store/follow-tasks.ts'
import { spreadPriority } from '../store/spread-priority.ts'
import type { Duty } from './duty.ts'

// One transaction each: a claim steps over what it holds.
const CHUNK = 1000

/**
 * Moves jobs that have not started to the lane that their task was moved to, and gives jobs below a workflow the priority that it was
 * given. What is cut short goes on with the next tick.
 */
export const follow: Duty = {
  name: 'follow',
  everyMs: 1000,
  async run({ db }) {
    let moved = 0
    for (let more = true; more; ) {
      const chunk = await followTasks(db, CHUNK)
      moved += chunk.moved
      more = chunk.more
    }
    let reprioritised = 0
    for (let more = true; more; ) {
      const chunk = await spreadPriority(db, CHUNK)
      reprioritised += chunk.changed
      more = chunk.more
    }
    if (moved + reprioritised === 0) return {}
    return { summary: { ...(moved > 0 && { moved }), ...(reprioritised > 0 && { reprioritised }) } }
  },
}
