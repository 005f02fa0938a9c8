import type { Database, Queryable } from '../db/database.ts'
import { transactForCallers } from '../db/for-callers.ts'
import { SluiceError } from '../errors.ts'
import { checkStorable, invalidArgument } from '../model/argument.ts'
import { ACTIVE_STATUSES, type JobStatus, statusOf } from '../model/job.ts'
import { toStorableText } from '../model/json.ts'
import { withoutSecretsIn } from '../model/redact.ts'
import { cancelJobs } from '../store/cancel-jobs.ts'
import type { JobSearch } from '../store/find-jobs.ts'
import { type AuditOfOne, insertAudits } from '../store/insert-audits.ts'
import { reprioritiseJobs } from '../store/reprioritise-jobs.ts'
import { checkPriority } from './job-control.ts'
import { fromCursor, type JobCriteria, readPageOfIds, toCursor, toSearch } from './job-list.ts'
import { retry } from './retry-tree.ts'

export type BulkAction =
  | { readonly action: 'cancel'; readonly reason: string }
  | { readonly action: 'retry' }
  | { readonly action: 'priority'; readonly priority: number }

export interface BulkOptions {
  /** Only counts. */
  readonly dryRun?: boolean | undefined
  /** The `next` of an answer that was not the last. */
  readonly cursor?: string | undefined
  /** Starts nothing new after so long, and answers where to go on. */
  readonly withinMs?: number
}

/** Who does it, for the audit. */
export interface BulkAuthor {
  readonly name: string
  readonly keyId?: string | undefined
  readonly requestId?: string | undefined
  /** Why, in their own words. */
  readonly reason?: string | undefined
}

export interface BulkAnswer {
  /** Jobs found in a state that the action is for. */
  readonly matched: number
  readonly changed: number
  /** The first hundred that could not be changed. */
  readonly refused: readonly { readonly id: string; readonly code: string; readonly detail: string }[]
  /** `null`: all is done. */
  readonly next: string | null
}

/** What each action can do something to. */
const FOR: Readonly<Record<BulkAction['action'], readonly JobStatus[]>> = {
  cancel: ACTIVE_STATUSES,
  retry: ['failed', 'cancelled'],
  priority: ['awaiting_approval', 'queued'],
}
/** Jobs in one transaction: it holds their locks while it lasts. */
const BATCH = 100
const COUNTED_AT_ONCE = 10_000
/** Below the time that a request may take. */
const WITHIN_MS = 20_000
const MAX_REFUSED = 100
const MAX_REASON = 2000

/**
 * Cancels, retries or reprioritises the jobs that match.
 *
 * From the newest downwards, in batches, each with its audit in a transaction of its own: what is submitted meanwhile is
 * not touched, and what was done stays done when a later batch fails. Trees are meant as a whole, by their roots.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` when the filter asks for states that the action is not for.
 */
export async function actInBulk(
  db: Database,
  calls: Queryable,
  action: BulkAction,
  criteria: JobCriteria,
  author: BulkAuthor,
  options: BulkOptions = {},
): Promise<BulkAnswer> {
  const { dryRun = false, cursor, withinMs = WITHIN_MS } = options
  const search = searchFor(action, criteria)
  const checked = checkAction(action)
  const end = performance.now() + withinMs
  const refused: { id: string; code: string; detail: string }[] = []
  let matched = 0
  let changed = 0
  let place = cursor === undefined ? undefined : fromCursor(cursor)
  for (;;) {
    const { ids, next } = await readPageOfIds(calls, search, place, dryRun ? COUNTED_AT_ONCE : BATCH)
    matched += ids.length
    if (!dryRun && ids.length > 0) {
      const done = await actOnBatch(db, checked, ids, author)
      changed += done.changed
      refused.push(...done.refused.slice(0, MAX_REFUSED - refused.length))
    }
    if (next === null) return { matched, changed, refused, next: null }
    place = next
    if (performance.now() > end) return { matched, changed, refused, next: toCursor(place) }
  }
}

function searchFor({ action }: BulkAction, criteria: JobCriteria): JobSearch {
  const able = FOR[action]
  const { status = able } = criteria
  const other = status.find((each) => !able.includes(each))
  if (other !== undefined)
    throw invalidArgument('filter.status', other, `one of ${able.join(', ')}: ${action} is for those`)
  return toSearch({ ...criteria, status })
}

function checkAction(action: BulkAction): BulkAction {
  if (action.action === 'priority') return { ...action, priority: checkPriority(action.priority) }
  if (action.action === 'retry') return action
  return { ...action, reason: toStorableText(checkStorable(action.reason, 'reason', { min: 0 }), MAX_REASON) }
}

interface BatchDone {
  readonly changed: number
  readonly refused: readonly { readonly id: string; readonly code: string; readonly detail: string }[]
}

async function actOnBatch(
  db: Database,
  action: BulkAction,
  ids: readonly string[],
  author: BulkAuthor,
): Promise<BatchDone> {
  if (action.action === 'retry') return retryEach(db, ids, author)
  const rows = await transactForCallers(db, async (tx) => {
    const done =
      action.action === 'cancel'
        ? await cancelAll(tx, ids, action.reason)
        : await reprioritiseAll(tx, ids, action.priority)
    await writeDown(tx, author, `job.${action.action}`, done)
    return done
  })
  return { changed: rows.length, refused: [] }
}

async function cancelAll(tx: Queryable, ids: readonly string[], reason: string): Promise<AuditOfOne[]> {
  return (await cancelJobs(tx, ids, reason)).map(({ id, before, after }) => ({
    target: `job ${id}`,
    before: { status: statusOf(before) },
    after: { status: statusOf(after), reason },
  }))
}

async function reprioritiseAll(
  tx: Queryable,
  ids: readonly string[],
  priority: number,
): Promise<AuditOfOne[]> {
  return (await reprioritiseJobs(tx, ids, priority)).map(({ id, before }) => ({
    target: `job ${id}`,
    before: { priority: before },
    after: { priority },
  }))
}

/** Each alone: one that cannot run again, because of its key or the ceiling, must not keep the others from it. */
async function retryEach(db: Database, ids: readonly string[], author: BulkAuthor): Promise<BatchDone> {
  const refused: { id: string; code: string; detail: string }[] = []
  for (const id of ids) {
    try {
      await transactForCallers(db, async (tx) => {
        const { jobs } = await retry(tx, id, { failed: true })
        await writeDown(tx, author, 'job.retry', [{ target: `job ${id}`, before: null, after: { jobs } }])
      })
    } catch (error) {
      if (!(error instanceof SluiceError) || error.status >= 500) throw error
      refused.push({ id, code: error.code, detail: error.message })
    }
  }
  return { changed: ids.length - refused.length, refused }
}

async function writeDown(
  tx: Queryable,
  { name, keyId, requestId, reason }: BulkAuthor,
  action: string,
  rows: readonly AuditOfOne[],
): Promise<void> {
  if (rows.length > 0)
    await insertAudits(tx, { actor: name, keyId, requestId, reason, action }, withoutSecretsIn(rows))
}
