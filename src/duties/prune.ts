import { pruneHistory } from '../store/prune-history.ts'
import type { Duty } from './duty.ts'

const CHUNK = 2000
/** One tick deletes this much at most; the next one goes on. */
const MOST = 50_000

/** Deletes finished jobs older than the retention. */
export const prune: Duty = {
  name: 'prune',
  everyMs: 60_000,
  async run({ db }) {
    let pruned = 0
    for (let chunk = CHUNK; chunk === CHUNK && pruned < MOST; pruned += chunk)
      chunk = await pruneHistory(db, CHUNK)
    return pruned === 0 ? {} : { summary: { pruned } }
  },
}
