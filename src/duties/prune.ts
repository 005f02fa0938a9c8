import { pruneHistory } from '../store/prune-history.ts'
import { pruneLeftovers } from '../store/prune-leftovers.ts'
import type { Duty } from './duty.ts'

const WINDOW = 2000
/** One tick looks at this much; the next one goes on where it stopped. */
const WINDOWS = 25

/** Where the last tick of this process stopped. Another process begins at the beginning, which costs it a look. */
let after = '0'

/** Deletes finished jobs older than the retention. */
export const prune: Duty = {
  name: 'prune',
  everyMs: 60_000,
  async run({ db }) {
    let pruned = 0
    for (let window = 0; window < WINDOWS; window++) {
      const look = await pruneHistory(db, after, WINDOW)
      pruned += look.pruned
      after = look.done || look.last === null ? '0' : look.last
      if (after === '0') break
    }
    await pruneLeftovers(db)
    return pruned === 0 ? {} : { summary: { pruned } }
  },
}
