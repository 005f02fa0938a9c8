import type { Queryable } from '../../db/database.ts'
import { cureOf, describeLock, type HeldLock } from '../../model/held-lock.ts'
import { isFinal } from '../../model/job.ts'
import type { WaitObstacle } from '../../model/wait-obstacle.ts'
import { countPasses, type Passes } from '../../store/count-passes.ts'
import { type CompositeView, describeComposite } from '../../store/describe-composite.ts'
import { explainWait, type LaneWait, type RunningJob } from '../../store/explain-wait.ts'
import { explainWindow } from '../../store/explain-window.ts'
import type { JobView } from '../../store/find-jobs.ts'
import { findLaneLocks } from '../../store/find-lane-locks.ts'
import { type Branch, loadBranches, loadBranchesInFlight } from '../../store/load-branches.ts'
import { readClock } from '../../store/read-clock.ts'
import { bodyOf } from '../../workflow/advance/retry-plan.ts'
import { getJob } from '../operate/job-control.ts'
import { GraphCache } from '../workflows/graph-cache.ts'
import { findLaneStop, type LaneStop } from './find-lane-stop.ts'
import { withBelow } from './progress-below.ts'
import { type BudgetObstacle, type BudgetWait, explainBudget } from './why-budget.ts'

/**
 * What kind of thing a job waits for.
 *
 * - `turn`: others come first.
 * - `assigned`: a worker has it and starts it as soon as one of its slots is free.
 * - `nothing`: a worker takes it on its next poll, or it does not wait at all.
 * - `lane_locked`: another database session holds the row of its lane.
 * - `children`: it is part of a tree and waits for what is below it.
 *
 * A key never holds a job that was accepted: a second one attaches to the first, or is refused.
 */
export type WaitKind =
  | 'nothing'
  | 'turn'
  | 'assigned'
  | 'approval'
  | 'time'
  | 'retry'
  | 'window'
  | 'parent'
  | 'children'
  | 'lane_locked'
  | WaitObstacle

/** Who runs in a job's place. */
export interface Holder {
  readonly jobId: string
  readonly task: string
  readonly worker: string | null
  readonly since: Date | null
}

export interface Wait {
  readonly kind: WaitKind
  /** The lane it is in, its limit and how much of that is in use, where a limit holds it. */
  readonly lane: string | null
  readonly limit: number | null
  readonly inUse: number | null
  /** The fan-out whose window it waits for, or the job above it. */
  readonly parentId: string | null
  /** When it is over, where that is known. */
  readonly until: Date | null
  /** Who paused or closed the lane. */
  readonly by: string | null
  /** The labels that no worker has. */
  readonly requires: Readonly<Record<string, unknown>> | null
  /** What it lacks of a budget, and what holds that. */
  readonly budget: BudgetWait | null
}

export interface Explanation {
  readonly job: JobView
  readonly wait: Wait
  /** What the job waits for, in words; or that it does not wait. */
  readonly reason: string
  /** Who runs in its place: up to 20, the oldest first. */
  readonly holders: readonly Holder[]
  /** Of the first 20, those that belong to somebody whose jobs the asker may not see. */
  readonly hiddenHolders: number
  /** Its place in line, 1 for the next, up to `EXACT_DEPTH`; `null` where there is no line. */
  readonly position: number | null
  /** Seconds until it starts, or ends where it waits for children, from how fast others ended lately; `null`: nobody can tell. */
  readonly estimateSeconds: number | null
  /** How often it was passed over since it became ready, and why. */
  readonly passedOver: readonly Passes[]
  /** All of this in words, a line each. */
  readonly words: readonly string[]
}

export interface ExplainOptions {
  /** Of the holders only jobs of this owner are named. */
  readonly owner?: string | undefined
}

type Found = Pick<Explanation, 'wait' | 'reason'> &
  Partial<Pick<Explanation, 'position' | 'estimateSeconds'>> & {
    readonly held?: readonly RunningJob[]
    readonly change?: LaneStop
  }

const HOLDERS = 20
const LOOK_BACK = 400
const FREE: Wait = {
  kind: 'nothing',
  lane: null,
  limit: null,
  inUse: null,
  parentId: null,
  until: null,
  by: null,
  requires: null,
  budget: null,
}
const NOT_WAITING = 'it is not waiting'
/** Somebody has to do something first: how fast others were tells nothing. */
const STANDING: ReadonlySet<WaitKind> = new Set([
  'crash',
  'lane_paused',
  'lane_closed',
  'lane_locked',
  'no_worker',
  'labels',
  'draining',
  'withdrawn',
  'silent',
])

/** Says what a job waits for, who holds it, and for how long yet. @throws {SluiceError} `JOB_NOT_FOUND`. */
export async function explain(
  db: Queryable,
  id: string,
  { owner }: ExplainOptions = {},
): Promise<Explanation> {
  const job = await getJob(db, id)
  const found = await find(db, job)
  const { wait, reason, position = null, estimateSeconds = null, held = [], change } = found
  const seen = held.filter(({ submittedBy }) => owner === undefined || submittedBy === owner)
  const told = {
    job,
    wait,
    reason,
    holders: seen.map(({ id: jobId, task, worker, since }) => ({ jobId, task, worker, since })),
    hiddenHolders: held.length - seen.length,
    position,
    estimateSeconds,
    // One that is not released, or not approved, stands in no line yet: nobody passes it over.
    passedOver: job.state === 'waiting' || job.state === 'awaiting_approval' ? [] : await countPasses(db, id),
  }
  return { ...told, words: explanationText(told, change) }
}

async function find(db: Queryable, job: JobView): Promise<Found> {
  switch (job.state) {
    case 'awaiting_approval':
      return { wait: { ...FREE, kind: 'approval' }, reason: 'it is waiting for approval' }
    case 'scheduled':
      return notDue(job, await readClock(db))
    case 'ready':
      return job.worker === null ? readyToStart(db, job) : assigned(job)
    case 'waiting':
      return behindParent(db, job)
    case 'running':
      return job.kind === null ? doesNotWait(job) : aboveChildren(db, job)
    case 'completed':
    case 'failed':
    case 'cancelled':
    case 'skipped':
      return doesNotWait(job)
    default:
      return job.state satisfies never
  }
}

function doesNotWait({ state, cancelling, worker }: JobView): Found {
  const passive = state === 'cancelled' || state === 'skipped'
  const does =
    state === 'running'
      ? `runs on ${worker}${cancelling ? ' and has been asked to stop' : ''}`
      : `has ${passive ? `been ${state}` : state}`
  return { wait: FREE, reason: `${NOT_WAITING}: it ${does}` }
}

function notDue({ readyAt, failures, error }: JobView, now: Date): Found {
  const retry = failures > 0
  const estimateSeconds = Math.max(0, Math.ceil((readyAt.getTime() - now.getTime()) / 1000))
  return {
    wait: { ...FREE, kind: retry ? 'retry' : 'time', until: readyAt },
    reason: retry
      ? `it failed (${error}) and will be retried at ${readyAt.toISOString()}`
      : `it is scheduled for ${readyAt.toISOString()}`,
    estimateSeconds,
  }
}

/** It is not in the queue: no one is before it, and what a lane lacks does not hold it. */
function assigned({ lane, worker }: JobView): Found {
  return {
    wait: { ...FREE, kind: 'assigned', lane },
    reason: `it is assigned to worker ${worker} and starts when one of its slots is free`,
  }
}

async function readyToStart(db: Queryable, job: JobView): Promise<Found> {
  const found = await explainWait(db, job.id, HOLDERS)
  // What stands in the way of the lane or the worker stands in the way of its budget too.
  const isOpen = found !== undefined && (found.obstacle === null || found.obstacle === 'budget')
  // Once nobody has to do anything else first, the lock is what keeps every slot of the lane.
  if (found !== undefined && (found.obstacle === null || !STANDING.has(found.obstacle))) {
    const lock = (await findLaneLocks(db)).find(({ name }) => name === found.lane)
    if (lock !== undefined) return behindLock(found, lock)
  }
  const line = inLine(job, found, isOpen ? await explainBudget(db, job.id, job.task) : undefined)
  if (found === undefined || line.wait.by === null) return line
  const change = await findLaneStop(db, found, line.wait.kind === 'lane_paused')
  return { ...line, wait: { ...line.wait, by: change.by }, change }
}

function behindLock({ lane, ahead }: LaneWait, lock: HeldLock): Found {
  const reason = `${describeLock(lock)}, so none of its jobs can start. ${cureOf(lock)}`
  return { wait: { ...FREE, kind: 'lane_locked', lane }, reason, position: ahead + 1 }
}

function inLine(job: JobView, found: LaneWait | undefined, drawn?: BudgetObstacle): Found {
  if (found === undefined) return { wait: FREE, reason: 'it is about to start' }
  const { lane, ahead, rate, depth, requires, budgeted } = found
  // How long it waits says only that it may be its budget; the policy knows.
  const obstacle = found.obstacle === 'budget' ? null : found.obstacle
  const kind: WaitKind =
    obstacle ?? (drawn !== undefined ? 'budget' : depth > 1 || ahead > 0 ? 'turn' : 'nothing')
  const reason =
    (obstacle === null ? undefined : found.reason) ??
    drawn?.reason ??
    (depth > 1
      ? `its turn: ${depth - 1} ${depth === 2 ? 'other' : 'others'} of task ${job.task} ${depth === 2 ? 'waits' : 'wait'} in lane ${lane}`
      : ahead > 0
        ? `its turn: other jobs of lane ${lane} come first`
        : 'Nothing is blocking it. A worker will pick it up on its next poll')
  // How fast a lane was says nothing of a job that waits for a device or a budget: swaps and turns do.
  const isGuess = STANDING.has(kind) || kind === 'nothing' || budgeted
  const estimateSeconds = isGuess || rate === null ? null : Math.ceil((ahead + 1) / rate)
  return {
    wait: {
      ...FREE,
      kind,
      lane,
      ...limitOf(found, kind),
      by: kind === 'lane_paused' || kind === 'lane_closed' ? found.changedBy : null,
      requires: kind === 'labels' ? requires : null,
      budget: drawn?.wait ?? null,
      until: drawn?.wait.until ?? null,
    },
    reason,
    position: ahead + 1,
    estimateSeconds,
    held: STANDING.has(kind) || kind === 'nothing' ? [] : found.holders,
  }
}

function limitOf({ slots, perWorker, running }: LaneWait, kind: WaitKind): Pick<Wait, 'limit' | 'inUse'> {
  if (kind === 'lane_full' || kind === 'lane_held') return { limit: slots, inUse: running }
  return kind === 'per_worker'
    ? { limit: perWorker === -1 ? 0 : perWorker, inUse: running }
    : { limit: null, inUse: null }
}

async function behindParent(db: Queryable, job: JobView): Promise<Found> {
  const parentId = job.parentId!
  const [parent, place] = await Promise.all([describeComposite(db, parentId), explainWindow(db, job.id)])
  if (parent === undefined || parent.window === null)
    return {
      wait: { ...FREE, kind: 'parent', parentId },
      reason: `it waits for job ${parentId}, which releases it when it starts`,
    }
  const paused = parent.window === 0
  const { ahead = 0, rate = null } = place ?? {}
  return {
    wait: { ...FREE, kind: 'window', parentId, limit: parent.window, inUse: parent.inFlight },
    reason: paused
      ? `it waits for the window of job ${parentId}, which is paused; resume it with: sluice window ${parentId} resume`
      : `it waits for a place in the window of job ${parentId}: ${parent.inFlight} of ${parent.window} are in flight`,
    position: ahead + 1,
    estimateSeconds: paused || rate === null ? null : Math.ceil((ahead + 1) / rate),
    held: toHolders(job, await branchesInFlight(db, parentId, 'fanout')),
  }
}

async function aboveChildren(db: Queryable, job: JobView): Promise<Found> {
  const view = await describeComposite(db, job.id)
  if (view === undefined) return { wait: FREE, reason: 'it is about to start' }
  if (view.unheardMs !== null)
    return {
      wait: { ...FREE, kind: 'no_worker' },
      reason: `no process advances it: it was woken ${Math.round(view.unheardMs / 1000)} s ago, but no worker or server is running. Start one with: sluice worker, or sluice up`,
    }
  const below = await branchesInFlight(db, job.id, job.kind)
  const all = job.kind === 'fanout' ? view.total : await countSteps(db, view)
  return {
    wait: { ...FREE, kind: 'children', limit: all, inUse: all - view.ended },
    reason: `${waitsForChildren(job, view, all)}${approvalsAmong(below) || (await whichStep(db, job))}`,
    estimateSeconds: untilEnd(job, view),
    held: toHolders(job, below),
  }
}

/** Which step keeps a workflow, or why a fan-out cannot succeed any more. */
async function whichStep(db: Queryable, job: JobView): Promise<string> {
  const [{ below } = { below: undefined }] = await withBelow(db, [job])
  if (below?.waitsFor !== undefined) return `; ${below.waitsFor.text}`
  return below?.willFail === undefined ? '' : `; it will fail: ${below.willFail}`
}

/** Of a fan-out, whose children are alike: as fast as so far. */
function untilEnd({ kind }: JobView, { ended, total, window, runMs }: CompositeView): number | null {
  if (kind !== 'fanout' || ended === 0 || runMs === null || window === 0) return null
  return Math.max(0, Math.ceil(((total - ended) * runMs) / 1000 / ended))
}

/** Those it has not come to yet included, as its graph has them. */
async function countSteps(db: Queryable, { graph, node }: CompositeView): Promise<number> {
  const graphs = new GraphCache(db)
  await graphs.load([graph])
  return bodyOf({ graph, node }, graphs).steps.length
}

function waitsForChildren(job: JobView, view: CompositeView, all: number): string {
  const ended = `${view.ended} of ${all} ${job.kind === 'fanout' ? 'children' : 'steps'} have ended`
  if (view.closing) return `it is stopping its children: ${ended}`
  const window =
    view.window === null
      ? ''
      : view.window === 0
        ? `, and it is paused; resume it with: sluice window ${job.id} resume`
        : `, ${view.inFlight} of at most ${view.window} are in flight`
  return job.kind === 'fanout'
    ? `it waits for its children: ${ended}${window}`
    : `it waits for its steps: ${ended}`
}

/** The children of a job that have begun and not ended. */
async function branchesInFlight(
  db: Queryable,
  parentId: string,
  kind: JobView['kind'],
): Promise<readonly Branch[]> {
  return kind === 'fanout'
    ? loadBranchesInFlight(db, [parentId], HOLDERS, LOOK_BACK)
    : (await loadBranches(db, [parentId], LOOK_BACK)).filter(({ state }) => !isFinal(state))
}

/** They have the owner of their root. */
function toHolders({ submittedBy }: JobView, branches: readonly Branch[]): RunningJob[] {
  return branches.slice(0, HOLDERS).map(({ id, task, startedAt, readyAt }) => {
    return { id, task, worker: null, since: startedAt ?? readyAt, submittedBy }
  })
}

/** What waits for somebody goes on only when they have looked: it has to be named. */
function approvalsAmong(branches: readonly Branch[]): string {
  const waiting = branches.filter(({ state }) => state === 'awaiting_approval')
  const first = waiting[0]
  if (first === undefined) return ''
  const more = waiting.length === 1 ? '' : ` and ${waiting.length - 1} more`
  return `; job ${first.id} (${first.task})${more} ${waiting.length === 1 ? 'waits' : 'wait'} for approval`
}

function explanationText(told: Omit<Explanation, 'words'>, change: LaneStop | undefined): string[] {
  const { job, reason, position, estimateSeconds, holders, hiddenHolders, passedOver } = told
  const { kind, lane } = told.wait
  const way = kind === 'lane_paused' ? ` (sluice resume ${lane} resumes it)` : ''
  const subject = `job ${job.id} (${job.task})`
  const words = [
    reason.startsWith(NOT_WAITING)
      ? `${subject}${reason.slice('it'.length)}`
      : `${subject} is ${job.status}: ${reason}${way}`,
  ]
  if (change !== undefined) {
    const why = change.reason === null ? '' : `: ${change.reason}`
    words.push(`the lane was ${change.what} by ${change.by} at ${change.at.toISOString()}${why}`)
  }
  if (position !== null && position > 1)
    words.push(position === 2 ? '1 comes before it' : `${position - 1} come before it`)
  if (estimateSeconds !== null && told.wait.until === null)
    words.push(
      `at the rate at which jobs ended recently, that takes about ${estimateSeconds} ${estimateSeconds === 1 ? 'second' : 'seconds'}`,
    )
  for (const { jobId, task, worker, since } of holders.slice(0, 5)) {
    const where = worker === null ? '' : ` on ${worker}`
    const when = since === null ? '' : ` since ${since.toISOString()}`
    words.push(`in flight: job ${jobId} (${task})${where}${when}`)
  }
  const more = holders.length - 5 + hiddenHolders
  if (more > 0) words.push(`in flight: ${more} more`)
  if (job.deadlineAt !== null && (job.state === 'ready' || job.state === 'scheduled'))
    words.push(`it fails if it has not started by ${job.deadlineAt.toISOString()}`)
  for (const { times, reason: why } of passedOver)
    words.push(
      `passed over in ${times} ${times === 1 ? 'sample' : 'samples'}${why === reason ? '' : `: ${why}`}`,
    )
  return words
}
