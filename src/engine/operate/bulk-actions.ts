import type { Database, Queryable } from '../../db/database.ts'
import { transactWithRetries } from '../../db/with-retries.ts'
import { checkStorable, invalidArgument } from '../../model/argument.ts'
import { ACTIVE_STATUSES, type JobStatus, statusOf } from '../../model/job.ts'
import { toStorableText } from '../../model/json.ts'
import { MAX_JOB_REASON } from '../../model/limits.ts'
import { cancelJobs } from '../../store/cancel-jobs.ts'
import type { JobSearch } from '../../store/find-jobs.ts'
import type { AuditOfOne } from '../../store/insert-audits.ts'
import { reprioritiseJobs } from '../../store/reprioritise-jobs.ts'
import { fromCursor, type JobCriteria, readPageOfIds, toCursor, toSearch } from '../views/job-list.ts'
import { retryInBulk } from './bulk-retry.ts'
import { type BulkAnswer, type BulkAuthor, type BulkRun, writeDown } from './bulk-run.ts'
import { cancelFacts, checkPriority } from './job-control.ts'

export type BulkAction =
  | { readonly action: 'cancel'; readonly reason: string }
  | { readonly action: 'retry' }
  | { readonly action: 'priority'; readonly priority: number }

/** What is done to each job by itself. A retry works by tree. */
type OneByOne = Exclude<BulkAction, { readonly action: 'retry' }>

export interface BulkOptions {
  /** Only counts jobs. */
  readonly dryRun?: boolean | undefined
  /** The `next` of a response that was not the last. */
  readonly cursor?: string | undefined
  /** Starts nothing new after this time, and returns where to continue. */
  readonly withinMs?: number
}

/** The states to which each action applies. */
const FOR: Readonly<Record<BulkAction['action'], readonly JobStatus[]>> = {
  cancel: ACTIVE_STATUSES,
  retry: ['failed', 'cancelled'],
  priority: ACTIVE_STATUSES,
}
/**
 * Without a status in the filter. A cancelled job was stopped on purpose, so only a filter that names the status
 * includes it.
 */
const BY_DEFAULT: Readonly<Record<BulkAction['action'], readonly JobStatus[]>> = { ...FOR, retry: ['failed'] }
/** Jobs per transaction, which holds their locks. */
const BATCH = 100
const COUNTED_AT_ONCE = 10_000
/** Below the time that a request may take. */
const WITHIN_MS = 20_000

/**
 * Cancels, retries or reprioritises the jobs that match.
 *
 * From the newest downwards, in batches, each with its audit in a transaction of its own: what is submitted meanwhile is
 * not touched, and what was done stays done when a later batch fails. A retry reruns each tree once.
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
  const position = cursor === undefined ? undefined : fromCursor(cursor)
  const run = { search, author, dryRun, cursor: position, end: performance.now() + withinMs }
  const answer =
    checked.action === 'retry' ? await retryInBulk(db, calls, run) : await actOnAll(db, calls, checked, run)
  return { ...answer, next: answer.next === null ? null : toCursor(answer.next) }
}

async function actOnAll(
  db: Database,
  calls: Queryable,
  action: OneByOne,
  { search, author, dryRun, cursor, end }: BulkRun,
): Promise<BulkAnswer> {
  let matched = 0
  let changed = 0
  let position = cursor
  for (;;) {
    const { found, next } = await readPageOfIds(calls, search, position, dryRun ? COUNTED_AT_ONCE : BATCH)
    matched += found.length
    const ids = found.map(({ id }) => id)
    if (!dryRun && ids.length > 0) changed += await actOnBatch(db, action, ids, author)
    if (next === null || performance.now() > end) return { matched, changed, refused: [], next }
    position = next
  }
}

function searchFor({ action }: BulkAction, criteria: JobCriteria): JobSearch {
  const able = FOR[action]
  const { status = BY_DEFAULT[action] } = criteria
  const other = status.find((each) => !able.includes(each))
  if (other !== undefined)
    throw invalidArgument('filter.status', other, `one of ${able.join(', ')}: ${action} is for those`)
  // Of what runs, only workflows have jobs that have not started.
  return { ...toSearch({ ...criteria, status }), ...(action === 'priority' && { unstarted: true }) }
}

function checkAction(action: BulkAction): BulkAction {
  if (action.action === 'priority') return { ...action, priority: checkPriority(action.priority) }
  if (action.action === 'retry') return action
  return {
    ...action,
    reason: toStorableText(checkStorable(action.reason, 'reason', { min: 0 }), MAX_JOB_REASON),
  }
}

async function actOnBatch(
  db: Database,
  action: OneByOne,
  ids: readonly string[],
  author: BulkAuthor,
): Promise<number> {
  const rows = await transactWithRetries(db, async (tx) => {
    const done =
      action.action === 'cancel'
        ? await cancelAll(tx, ids, action.reason)
        : await reprioritiseAll(tx, ids, action.priority)
    await writeDown(tx, author, `job.${action.action}`, done)
    return done
  })
  return rows.length
}

async function cancelAll(tx: Queryable, ids: readonly string[], reason: string): Promise<AuditOfOne[]> {
  return (await cancelJobs(tx, ids, reason)).map(({ id, before, after }) => ({
    target: `job ${id}`,
    before: { status: statusOf(before) },
    after: cancelFacts(after, reason),
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
