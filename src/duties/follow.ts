import { followTasks } from '../store/follow-tasks.ts'
import type { Duty } from './duty.ts'

// One transaction each: a claim steps over what it holds.
const CHUNK = 1000

/** Moves jobs that have not started to the lane that their task was moved to. What is cut short goes on with the next tick. */
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
    return moved === 0 ? {} : { summary: { moved } }
  },
}
