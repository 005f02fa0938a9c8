import { setTimeout as delay } from 'node:timers/promises'
import type { Queryable } from '../db/database.ts'
import { forgetAnswers } from '../engine/submit/idempotency.ts'
import { pruneAudit, pruneSessions, pruneSubmissions } from '../store/prune-access.ts'
import { pruneFirings } from '../store/prune-firings.ts'
import { pruneHistory } from '../store/prune-history.ts'
import { pruneLeftovers } from '../store/prune-leftovers.ts'
import { prunePast } from '../store/prune-past.ts'
import type { Duty } from './duty.ts'

const WINDOW = 2000
/**
 * How long a tick deletes jobs. It waits for half of this time, and the next tick continues where it stopped. Deleting a job takes 2 to
 * 10 microseconds, so a tick deletes 500,000 jobs or more.
 */
const BUDGET_MS = 10_000

/** The tick ends after this many windows in a row without a job to delete. */
const MAX_EMPTY_WINDOWS = 25

/** The most windows of audit entries that a tick goes through, for submissions and for other entries each. */
const WINDOWS_PER_TICK = 25

/** The most firings that a tick deletes. A schedule that fires every second leaves 60 per minute. */
const FIRINGS = 10_000

/** Audit entries are small, and every submission over HTTP writes one. A tick deletes up to 250,000 of each kind, which is 4,000 per second. */
const AUDIT_WINDOW = 10_000

/** Where the last tick of this process stopped in each database. Another process starts at the beginning, which costs it little. */
const cursors = new WeakMap<Queryable, string>()
const auditCursors = new WeakMap<Queryable, string>()

/** Deletes finished jobs older than the retention, and other old records. */
export const prune: Duty = {
  name: 'prune',
  everyMs: 60_000,
  async run({ db, isStopping }) {
    const pruned = await pruneJobs(db, isStopping)
    await pruneFirings(db, FIRINGS)
    await pruneLeftovers(db)
    await prunePast(db)
    await pruneSessions(db)
    await forgetAnswers(db)
    const audited = (await pruneAudits(db)) + (await pruneOldSubmissions(db))
    return pruned + audited === 0 ? {} : { summary: { pruned, audited } }
  },
}

/**
 * Deletes finished jobs until the rest are too young or the time is up. After each window it waits for as long as the window took, so that other
 * work on the database can continue.
 */
async function pruneJobs(db: Queryable, isStopping: () => boolean): Promise<number> {
  const until = performance.now() + BUDGET_MS
  let pruned = 0
  let emptyWindows = 0
  let after = cursors.get(db) ?? '0'
  for (;;) {
    const began = performance.now()
    const look = await pruneHistory(db, after, WINDOW)
    pruned += look.pruned
    emptyWindows = look.pruned === 0 ? emptyWindows + 1 : 0
    after = look.done || look.last === null ? '0' : look.last
    cursors.set(db, after)
    if (after === '0' || emptyWindows === MAX_EMPTY_WINDOWS || isStopping() || performance.now() > until)
      return pruned
    await delay(performance.now() - began)
  }
}

/** Deletes old audit entries, window by window, until a window contains an entry that is too young. */
async function pruneAudits(db: Queryable): Promise<number> {
  let pruned = 0
  for (let window = 0; window < WINDOWS_PER_TICK; window++) {
    const gone = await pruneAudit(db, AUDIT_WINDOW)
    pruned += gone
    if (gone < AUDIT_WINDOW) break
  }
  return pruned
}

/** Deletes audit entries of old submissions, window by window, until a window contains an entry younger than the retention of jobs. */
async function pruneOldSubmissions(db: Queryable): Promise<number> {
  let pruned = 0
  for (let window = 0; window < WINDOWS_PER_TICK; window++) {
    const look = await pruneSubmissions(db, auditCursors.get(db) ?? '0', AUDIT_WINDOW)
    pruned += look.pruned
    auditCursors.set(db, look.cursor)
    if (!look.more) break
  }
  return pruned
}
