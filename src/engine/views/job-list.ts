import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { checkList, checkOptions, checkWhole, invalidArgument, optionNames } from '../../model/argument.ts'
import {
  JOB_STATES,
  JOB_STATUSES,
  type JobState,
  type JobStatus,
  statusOf,
  WAITS,
  type Waits,
} from '../../model/job.ts'
import { checkJobId } from '../../model/job-id.ts'
import {
  findChildren,
  findJobs,
  type JobSearch,
  type JobSummary,
  type JobView,
  type LinePlace,
  type ListedFields,
  listJobIds,
  listLine,
  listJobs as listPage,
} from '../../store/find-jobs.ts'
import { listFailures } from '../../store/list-failures.ts'
import { type Below, withBelow } from './progress-below.ts'

/** Which jobs are meant: those that match every field given. A moment is a `Date` or a text in ISO 8601. */
export interface JobCriteria extends Omit<JobSearch, 'states' | 'again' | 'unstarted' | Moment> {
  readonly status?: readonly JobStatus[]
  /** Of those that are queued, those that wait for this. */
  readonly waits?: Waits
  /** Submitted at this moment or later. */
  readonly submittedFrom?: Date | string
  /** Submitted before this moment. */
  readonly submittedTo?: Date | string
  readonly finishedFrom?: Date | string
  readonly finishedTo?: Date | string
}

/** Which jobs to list. */
export interface JobFilter extends JobCriteria {
  /** These jobs, children too. Stands alone. */
  readonly ids?: readonly string[]
  /** The children of this job. Without it and `ids`, there are no children in a list. Goes with `before` and `limit`. */
  readonly parent?: string
  /** Only jobs with a smaller id: the next page, newest first. */
  readonly before?: string
  readonly limit?: number
}

type Moment = 'submittedFrom' | 'submittedTo' | 'finishedFrom' | 'finishedTo'

/** A job on a page. */
export interface ListedJob extends JobSummary, ListedFields {
  /** Of a workflow or fan-out that runs: how far it is. */
  readonly below?: Below
}

/** Some jobs of a list, and where to go on. */
export interface JobPage {
  readonly jobs: readonly ListedJob[]
  /** `null`: that was all. Otherwise there may be more, even where the page is not full, or empty. */
  readonly next: string | null
}

/**
 * Rows one page looks at. It bounds what a search for something rare costs: with 1,000,000 finished jobs at most 1.4 times
 * what it costs with 10,000 (p95 by filter, one run of scripts/measure-lists.mjs).
 */
export const PAGE_LOOK = 5000
/**
 * Looks before a page is answered that is empty and yet not the last: above the roots that are looked for may lie steps of
 * many workflows. Children of a wide fan-out are passed over by one.
 */
const MOST_LOOKS = 25
const MAX_LISTED = 100_000
const DEFAULT_LIMIT = 50

const CRITERIA: Readonly<Record<keyof JobCriteria, true>> = {
  status: true,
  task: true,
  lane: true,
  key: true,
  tag: true,
  submittedBy: true,
  submittedFrom: true,
  submittedTo: true,
  finishedFrom: true,
  finishedTo: true,
  error: true,
  waits: true,
  children: true,
  fingerprint: true,
}
const CRITERIA_OPTIONS = optionNames<JobCriteria>(CRITERIA)
const FILTER_OPTIONS = optionNames<JobFilter>({
  ids: true,
  parent: true,
  ...CRITERIA,
  before: true,
  limit: true,
})

/** Jobs that match every filter given, newest first; 50 unless `limit` says otherwise. */
export async function listJobs(
  db: Queryable,
  filter: JobFilter,
): Promise<(JobView & { readonly below?: Below })[]> {
  checkOptions(filter, FILTER_OPTIONS, 'filter')
  const { ids, parent, before, limit = DEFAULT_LIMIT, ...criteria } = filter
  checkWhole(limit, 'limit', 0, MAX_LISTED)
  if (before !== undefined) checkJobId(before)
  if (ids !== undefined) {
    refuseBeside('ids', filter, ['ids'])
    return withBelow(db, await findJobs(db, checkList(ids, 'ids', checkJobId)))
  }
  if (parent !== undefined) {
    refuseBeside('parent', filter, ['parent', 'before', 'limit'])
    return findChildren(db, checkJobId(parent), { before, limit })
  }
  const search = toSearch(criteria)
  if (search.fingerprint !== undefined)
    throw invalidArgument('fingerprint', search.fingerprint, 'left out, because such jobs are listed by page')
  const found: JobView[] = []
  let position: string | null | undefined = before
  while (found.length < limit && position !== null) {
    const request = { before: position, limit: limit - found.length, look: PAGE_LOOK }
    const { jobs, next } = await listPage(db, search, request, true)
    for (const job of jobs) found.push(job)
    position = next
  }
  return withBelow(db, found)
}

/**
 * One page of a list, newest first, at a bounded cost: it looks at some thousands of jobs, not at all of them.
 *
 * Going on from `next` neither repeats nor leaves out a job that was there at the first page, whatever is submitted
 * meanwhile.
 *
 * @param cursor The `next` of the page before.
 */
export async function readPage(
  db: Queryable,
  criteria: JobCriteria,
  cursor: string | undefined,
  limit: number,
): Promise<JobPage> {
  const before = cursor === undefined ? undefined : fromCursor(cursor)
  const search = toSearch(criteria)
  if (search.fingerprint !== undefined) return readFailures(db, search, before, limit)
  let position = jobIdPosition(before)
  for (let looks = 1; ; looks += 1) {
    const { jobs, next } = await listPage(db, search, { before: position, limit, look: PAGE_LOOK }, false)
    if (jobs.length > 0 || next === null || looks === MOST_LOOKS)
      return { jobs: await withBelow(db, jobs), next: next === null ? null : toCursor(next) }
    position = next
  }
}

/** Looks of a page of the line: ranks of all its lanes are merged, so each look reads more. */
const LINE_LOOK = 1000

/**
 * One page of the queued jobs in the order in which they would start, at a bounded cost. Each lane has a line of its own;
 * jobs of several lanes are merged by their ranks.
 *
 * @param criteria With `waits: 'turn'`, which says that only queued jobs are meant.
 * @param cursor The `next` of the page before.
 */
export async function readLine(
  db: Queryable,
  criteria: JobCriteria,
  cursor: string | undefined,
  limit: number,
): Promise<JobPage> {
  const { waits, finishedFrom, finishedTo, fingerprint } = criteria
  if (waits !== 'turn') throw invalidArgument('order', 'line', 'left out, or given with waits=turn')
  if (finishedFrom !== undefined || finishedTo !== undefined || fingerprint !== undefined)
    throw invalidArgument('order', 'line', 'left out, because finished jobs are requested')
  const search = toSearch(criteria)
  let after = cursor === undefined ? undefined : fromLineCursor(cursor)
  // Only queued jobs are in the line, and a status filter may exclude them.
  if (search.states?.includes('ready') !== true) return { jobs: [], next: null }
  for (let looks = 1; ; looks += 1) {
    const { jobs, next } = await listLine(db, search, { after, limit, look: LINE_LOOK })
    if (jobs.length > 0 || next === null || looks === MOST_LOOKS)
      return { jobs: await withBelow(db, jobs), next: next === null ? null : toLineCursor(next) }
    after = next
  }
}

function toLineCursor({ rank, id }: LinePlace): string {
  return Buffer.from(`3.${rank}.${id}`).toString('base64url')
}

function fromLineCursor(cursor: string): LinePlace {
  const text = Buffer.from(cursor, 'base64url').toString()
  const [, rank, id] = /^3\.(-?\d{1,10})\.([1-9]\d{0,18})$/.exec(text) ?? []
  const isPlace =
    rank !== undefined &&
    Number(rank) >= -(2 ** 31) &&
    Number(rank) < 2 ** 31 &&
    BigInt(id!) <= 9_223_372_036_854_775_807n
  if (!isPlace) throw invalidArgument('cursor', cursor, 'the "next" of a response to the same query')
  return { rank: Number(rank), id: id! }
}

async function readFailures(
  db: Queryable,
  search: JobSearch,
  before: string | undefined,
  limit: number,
): Promise<JobPage> {
  const { failures, next } = await pageOfFailures(db, search, before, limit)
  const found = new Map(
    (
      await findJobs(
        db,
        failures.map(({ id }) => id),
      )
    ).map((job) => [job.id, job]),
  )
  const jobs = failures.flatMap(({ id }) => {
    const job = found.get(id)
    if (job === undefined) return []
    const { input: _, result: __, checkpoint: ___, errorDetail: ____, ...summary } = job
    return [summary]
  })
  return { jobs, next: next === null ? null : toCursor(next) }
}

function pageOfFailures(db: Queryable, search: JobSearch, after: string | undefined, limit: number) {
  const { task = null, submittedBy = null, finishedFrom = null, finishedTo = null } = search
  if (after !== undefined && !after.includes('.')) throw otherCursor(after)
  const wanted = { since: finishedFrom, until: finishedTo, task, by: submittedBy }
  const fingerprint = search.fingerprint!
  return listFailures(db, { ...wanted, fingerprint }, after, PAGE_LOOK, limit)
}

/** A job of a list, and where to go on after it. */
export interface Found {
  readonly id: string
  readonly position: string
}

/** As `readPage`, ids only: for actions on all of them. */
export async function readPageOfIds(
  db: Queryable,
  search: JobSearch,
  before: string | undefined,
  limit: number,
): Promise<{ found: readonly Found[]; next: string | null }> {
  if (search.fingerprint === undefined) {
    const { ids, next } = await listJobIds(db, search, {
      before: jobIdPosition(before),
      limit,
      look: PAGE_LOOK,
    })
    return { found: ids.map((id) => ({ id, position: id })), next }
  }
  const { failures, next } = await pageOfFailures(db, search, before, limit)
  return { found: failures, next }
}

const WAITING: Readonly<Record<Waits, { readonly state: JobState; readonly again?: boolean }>> = {
  turn: { state: 'ready' },
  time: { state: 'scheduled', again: false },
  retry: { state: 'scheduled', again: true },
}

/** Checks what is searched for. @throws {SluiceError} `INVALID_ARGUMENT` naming the field. */
export function toSearch(criteria: JobCriteria, name = 'filter'): JobSearch {
  checkOptions(criteria, CRITERIA_OPTIONS, name)
  const { status, waits, children, fingerprint } = criteria
  if (fingerprint !== undefined) checkFingerprint(criteria)
  if (waits !== undefined && !Object.hasOwn(WAITING, waits))
    throw invalidArgument('waits', waits, `one of ${WAITS.join(', ')}`)
  const waiting = waits === undefined ? undefined : WAITING[waits]
  if (status !== undefined) checkList(status, 'status', checkStatus)
  return {
    ...((status !== undefined || waiting !== undefined) && {
      states: JOB_STATES.filter(
        (state) =>
          (status === undefined || status.includes(statusOf(state))) &&
          (waiting === undefined || state === waiting.state),
      ),
    }),
    ...(waiting?.again !== undefined && { again: waiting.again }),
    ...(checkChildren(children) && { children: true }),
    ...(fingerprint !== undefined && { fingerprint }),
    ...fieldsOf(criteria, ['task', 'lane', 'key', 'tag', 'submittedBy', 'error'] as const, checkSearched),
    ...fieldsOf(
      criteria,
      ['submittedFrom', 'submittedTo', 'finishedFrom', 'finishedTo'] as const,
      checkMoment,
    ),
  }
}

function checkChildren(children: unknown): boolean {
  if (children === undefined || children === false) return false
  if (children !== true) throw invalidArgument('children', children, 'true or false')
  return true
}

const BESIDE_FINGERPRINT = new Set([
  'fingerprint',
  'task',
  'submittedBy',
  'finishedFrom',
  'finishedTo',
  'status',
])

/** What failed alike is found by another way than other jobs, on which few things can be asked for. */
function checkFingerprint(criteria: JobCriteria): void {
  const { fingerprint, status } = criteria
  if (typeof fingerprint !== 'string' || !/^[0-9a-f]{12}$/.test(fingerprint))
    throw invalidArgument('fingerprint', fingerprint, 'the fingerprint of a group of errors')
  if (status !== undefined && !status.includes('failed'))
    throw invalidArgument(
      'status',
      status.join(),
      'failed, or left out, because a fingerprint identifies failures',
    )
  const other = Object.entries(criteria).find(
    ([name, value]) => value !== undefined && !BESIDE_FINGERPRINT.has(name),
  )
  if (other !== undefined)
    throw invalidArgument(other[0], other[1], 'left out, because it cannot be combined with a fingerprint')
}

/**
 * An opaque text: what is in it may change, and nobody has to know.
 *
 * @param position The id of a job; of failures the time and the id.
 */
export function toCursor(position: string): string {
  return Buffer.from(`${position.includes('.') ? 2 : 1}.${position}`).toString('base64url')
}

function jobIdPosition(before: string | undefined): string | undefined {
  if (before?.includes('.') === true) throw otherCursor(before)
  return before
}

function otherCursor(position: string): SluiceError {
  return invalidArgument('cursor', toCursor(position), 'the "next" of a response to the same query')
}

export function fromCursor(cursor: string): string {
  const text = Buffer.from(cursor, 'base64url').toString()
  const [, position, id] = /^(?:1|2(?=\.\d{1,16}\.))\.((?:\d+\.)?([1-9]\d{0,18}))$/.exec(text) ?? []
  if (position === undefined || BigInt(id!) > 9_223_372_036_854_775_807n)
    throw invalidArgument('cursor', cursor, 'the "next" of an earlier response, unchanged')
  return position
}

function fieldsOf<K extends keyof JobCriteria, T>(
  criteria: JobCriteria,
  names: readonly K[],
  check: (value: unknown, name: K) => T,
): Partial<Record<K, T>> {
  const given = names.filter((name) => criteria[name] !== undefined)
  return Object.fromEntries(given.map((name) => [name, check(criteria[name], name)])) as Partial<Record<K, T>>
}

function checkSearched(text: unknown, name: string): string {
  if (typeof text === 'string' && !text.includes('\0') && !/\p{Surrogate}/u.test(text)) return text
  throw invalidArgument(name, text, 'a text without NUL and unpaired surrogates')
}

function checkMoment(moment: unknown, name: string): Date {
  const date =
    moment instanceof Date ? moment : typeof moment === 'string' ? new Date(moment) : new Date(Number.NaN)
  const year = date.getUTCFullYear()
  if (year >= 1970 && year < 10_000) return date
  throw invalidArgument(name, moment, 'a time from 1970 to 9999, such as 2031-05-01T08:00:00Z')
}

function checkStatus(status: unknown, name: string): void {
  if (!JOB_STATUSES.some((known) => known === status))
    throw invalidArgument(name, status, `one of ${JOB_STATUSES.join(', ')}`)
}

function refuseBeside(name: keyof JobFilter, filter: JobFilter, allowed: readonly string[]): void {
  const other = Object.entries(filter).find(([key, value]) => value !== undefined && !allowed.includes(key))
  if (other === undefined) return
  throw new SluiceError('INVALID_ARGUMENT', `filter: ${name} and ${other[0]} cannot be combined`, {
    details: { argument: `filter.${other[0]}` },
  })
}
