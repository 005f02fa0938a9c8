import type { Queryable } from '../db/database.ts'
import { forgetAnswers } from '../engine/idempotency.ts'
import { pruneAudit, pruneSessions, pruneSubmissions } from '../store/prune-access.ts'
import { pruneFirings } from '../store/prune-firings.ts'
import { pruneHistory } from '../store/prune-history.ts'
import { pruneLeftovers } from '../store/prune-leftovers.ts'
import { prunePast } from '../store/prune-past.ts'
import type { Duty } from './duty.ts'

const WINDOW = 2000
/** One tick looks at this much; the next one goes on where it stopped. */
const WINDOWS = 25

/** A schedule that fires each second leaves 60 a minute. */
const FIRINGS = 10_000

/** Rows of the audit are small, and every submission over HTTP writes one: 250,000 a tick are 4,000 a second. */
const AUDIT_WINDOW = 10_000

/** Where the last tick of this process stopped in a database. Another process begins at the beginning, which costs it a look. */
const places = new WeakMap<Queryable, string>()
const auditPlaces = new WeakMap<Queryable, string>()

/** Deletes finished jobs older than the retention. */
export const prune: Duty = {
  name: 'prune',
  everyMs: 60_000,
  async run({ db }) {
    let pruned = 0
    let after = places.get(db) ?? '0'
    for (let window = 0; window < WINDOWS; window++) {
      const look = await pruneHistory(db, after, WINDOW)
      pruned += look.pruned
      after = look.done || look.last === null ? '0' : look.last
      if (after === '0') break
    }
    places.set(db, after)
    await pruneFirings(db, FIRINGS)
    await pruneLeftovers(db)
    await prunePast(db)
    await pruneSessions(db)
    await forgetAnswers(db)
    const audited = (await pruneAudits(db)) + (await pruneOldSubmissions(db))
    return pruned + audited === 0 ? {} : { summary: { pruned, audited } }
  },
}

/** Until a window is no longer all old. */
async function pruneAudits(db: Queryable): Promise<number> {
  let pruned = 0
  for (let window = 0; window < WINDOWS; window++) {
    const gone = await pruneAudit(db, AUDIT_WINDOW)
    pruned += gone
    if (gone < AUDIT_WINDOW) break
  }
  return pruned
}

/** Until a window reaches lines that are younger than jobs are kept. */
async function pruneOldSubmissions(db: Queryable): Promise<number> {
  let pruned = 0
  for (let window = 0; window < WINDOWS; window++) {
    const look = await pruneSubmissions(db, auditPlaces.get(db) ?? '0', AUDIT_WINDOW)
    pruned += look.pruned
    auditPlaces.set(db, look.place)
    if (!look.more) break
  }
  return pruned
}
