import { expireStartDeadlines } from '../store/expire-start-deadlines.ts'
import type { Duty } from './duty.ts'

const CHUNK = 5000

/** Fails jobs that found no capacity by their deadline. */
export const expire: Duty = {
  name: 'expire',
  everyMs: 1000,
  async run({ db, log }) {
    let expired = 0
    for (let chunk = CHUNK; chunk === CHUNK; expired += chunk) chunk = await expireStartDeadlines(db, CHUNK)
    if (expired === 0) return {}
    log.warn({ expired }, 'jobs failed because they found no capacity by their deadline')
    return { summary: { expired } }
  },
}
