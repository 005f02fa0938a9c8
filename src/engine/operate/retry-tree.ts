import { setTimeout as delay } from 'node:timers/promises'
import type { Database, Queryable } from '../../db/database.ts'
import { sqlState, translateError } from '../../db/sqlstate.ts'
import { transactWithRetries } from '../../db/with-retries.ts'
import { SluiceError } from '../../errors.ts'
import { checkFlag, checkList, checkOptions, checkText, invalidArgument } from '../../model/argument.ts'
import { isFailed, isFinal } from '../../model/job.ts'
import { checkJobId } from '../../model/job-id.ts'
import { type JsonValue, toStorableJson } from '../../model/json.ts'
import { checkDeferred } from '../../store/check-deferred.ts'
import { findActiveJob } from '../../store/find-active-job.ts'
import { type EndedChild, loadEndedChildren } from '../../store/load-ended-children.ts'
import { loadPath, loadPaths, type PathJob } from '../../store/load-path.ts'
import { recordInputAuthor } from '../../store/record-input-author.ts'
import { type RetryCounts, retryTree } from '../../store/retry-tree.ts'
import { toChild } from '../../workflow/advance/decide.ts'
import {
  bodyOf,
  type EndedJob,
  type EndedTree,
  emptyPlan,
  planAncestors,
  planFrom,
  planTogether,
  type RetryPlan,
} from '../../workflow/advance/retry-plan.ts'
import type { BodyPlan } from '../../workflow/plan.ts'
import { GraphCache } from '../workflows/graph-cache.ts'
import type { Refusal } from './bulk-run.ts'
import { jobNotFound, rerun } from './job-control.ts'
import {
  illegal,
  nameOf,
  noInput,
  noSteps,
  notFailed,
  notReached,
  stillActive,
  superseded,
  unknownStep,
} from './retry-refusals.ts'

/** What of a tree is to run again. */
export interface TreeRetryOptions {
  /** What failed or was cancelled, and what follows from it. */
  readonly failed?: boolean
  /** With `failed`: of what failed below the job, only these jobs. They run again together. */
  readonly only?: readonly string[]
  /** This step of a workflow or group, and what follows from it. */
  readonly from?: string
  /** What that step gets in place of its rendered input. */
  readonly input?: unknown
}

/** What was put in motion again. */
export interface Retried extends RetryCounts {
  /** The root of the tree: it runs again. */
  readonly root: string
  /** The task or workflow of the root. */
  readonly name: string
  /** Jobs named in `only` that cannot run again. The others do. */
  readonly refused: readonly Refusal[]
}

/** Somebody else moves the tree at the same moment: seen only when it is retried twice, or deleted. */
const TRIES = 20
const PAUSE_MS = 10

/**
 * Runs a job again that has ended. What completed stays; the attempts that ended stay in the history.
 *
 * A job that is part of no tree goes back in line. In a tree either what failed runs again, or a step; and with it what
 * follows from it. Everything above it runs again in place.
 *
 * @param by Who asks for it. With an input of theirs they approve nothing of the tree any more.
 * @throws {SluiceError} `ILLEGAL_TRANSITION` when some job of the tree has not ended, or nothing of it can run again;
 *   `KEY_CONFLICT` when another active job has the root's key; `INVALID_ARGUMENT`; `NOT_STORABLE`; `JOB_NOT_FOUND`.
 */
export async function retry(
  db: Queryable,
  id: string,
  options: TreeRetryOptions,
  by: string,
): Promise<Retried> {
  checkRetryOptions(options)
  checkJobId(id)
  for (let tried = 0; tried < TRIES; tried++) {
    const path = await loadPath(db, id)
    const [job] = path
    if (job === undefined) throw jobNotFound(db, id)
    if (job.kind === null && job.parentId === null) return retryPlain(db, job, options)
    const root = path.at(-1)!
    const done = await retryOnce(db, path, options)
    if (done !== undefined) {
      if (options.input !== undefined) await recordInputAuthor(db, root.id, by)
      return { root: root.id, name: root.task, ...done }
    }
    await delay(PAUSE_MS)
  }
  throw illegal(id, 'other requests are changing its tree; try again', { busy: true })
}

/** What `retry` would put in motion: it is carried out and rolled back, so it fails where that would fail, also at the ceiling. */
export async function planRetry(db: Database, id: string, options: TreeRetryOptions = {}): Promise<Retried> {
  let planned: Retried | undefined
  try {
    await transactWithRetries(db, async (tx) => {
      const retried = await retry(tx, id, options, 'dry run')
      await checkDeferred(tx)
      planned = retried
      throw new SluiceError('INTERNAL', 'rolled back: this was a dry run')
    })
  } catch (error) {
    if (planned === undefined) throw error
  }
  return planned!
}

function checkRetryOptions(options: TreeRetryOptions): void {
  checkOptions(options, ['failed', 'only', 'from', 'input'], 'options')
  if (options.only !== undefined) {
    checkList(options.only, 'only', checkJobId)
    if (options.only.length === 0) throw invalidArgument('only', options.only, 'at least one job')
    if (options.failed !== true)
      throw new SluiceError('INVALID_ARGUMENT', 'only: requires failed: true', {
        details: { argument: 'only' },
      })
  }
  if (options.failed !== undefined) checkFlag(options.failed, 'failed')
  if (options.from !== undefined) checkText(options.from, 'from')
  if (options.failed === true && options.from !== undefined)
    throw new SluiceError('INVALID_ARGUMENT', 'failed and from cannot be combined: use one of them')
  if ('input' in options && options.input !== undefined && options.from === undefined) {
    throw new SluiceError(
      'INVALID_ARGUMENT',
      'input: only a step accepts another input; name the step with from',
      {
        details: { argument: 'input' },
      },
    )
  }
}

async function retryPlain(db: Queryable, job: PathJob, { failed, from }: TreeRetryOptions): Promise<Retried> {
  if (from !== undefined) throw noSteps(job, 'it runs a task')
  if (failed === true && isFinal(job.state) && !isFailed(job.state)) throw notFailed(job)
  await rerun(db, job.id)
  return { root: job.id, name: job.task, jobs: 1, superseded: 0, refused: [] }
}

async function retryOnce(
  db: Queryable,
  path: readonly PathJob[],
  options: TreeRetryOptions,
): Promise<(RetryCounts & Pick<Retried, 'refused'>) | undefined> {
  const job = path[0]!
  const root = path.at(-1)!
  if (path.some((each) => each.superseded)) throw superseded(job)
  const active = await findActiveJob(db, root.id)
  if (active !== undefined) throw stillActive(job, root, active)
  const { from } = options
  const whole = from === undefined && (options.failed === true || job.kind === null)
  if (from === undefined && !whole) {
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `job ${job.id} is a ${nameOf(job)}: use failed to run its failed jobs again, or from with the name of a step`,
      { details: { jobId: job.id } },
    )
  }
  if (from !== undefined && job.kind === null) throw noSteps(job, 'it runs a task')
  if (from !== undefined && job.kind === 'fanout')
    throw noSteps(job, 'it is a fan-out; its jobs, or the workflow that contains it, may have some')
  if (whole) {
    const { paths, refused } = await pathsOf(db, path, options.only)
    const counts = await retryFailed(db, root, paths)
    return counts && { ...counts, refused }
  }

  const ended = path.map(toEnded)
  const tree = await loadTree(db, path, await loadEndedChildren(db, [], begunIn(ended)))
  const plan = emptyPlan()
  const child = planStep(plan, ended[0]!, tree, from!, options)
  planAncestors(plan, ended, tree)
  const counts = await apply(db, root.id, plan, child)
  return counts && { ...counts, refused: [] }
}

async function retryFailed(
  db: Queryable,
  root: PathJob,
  paths: readonly (readonly PathJob[])[],
): Promise<RetryCounts | undefined> {
  const ended = paths.map((path) => path.map(toEnded))
  const failed = paths.map(([job]) => job!.id)
  const children = await loadEndedChildren(db, failed, [...new Set(ended.flatMap(begunIn))])
  const tree = await loadTree(db, paths.flat(), children)
  return apply(db, root.id, planTogether(ended, tree), null)
}

/**
 * The ways from the jobs that run again to the root: from the job itself, or from those below it that were named.
 *
 * A named job below another one runs again with that. One that cannot run again is refused, as long as another can.
 */
async function pathsOf(
  db: Queryable,
  path: readonly PathJob[],
  only: readonly string[] | undefined,
): Promise<{ readonly paths: (readonly PathJob[])[]; readonly refused: readonly Refusal[] }> {
  if (only === undefined) {
    refuseUnlessFailed(path)
    return { paths: [path], refused: [] }
  }
  const top = path[0]!
  const paths = await loadPaths(db, only)
  const able = new Map<string, readonly PathJob[]>()
  const refused: Refusal[] = []
  let first: SluiceError | undefined
  for (const id of new Set(only)) {
    const each = paths.get(id)
    if (each === undefined) throw jobNotFound(db, id)
    if (!each.some((job) => job.id === top.id)) throw invalidArgument('only', id, `a job below job ${top.id}`)
    try {
      refuseUnlessFailed(each)
      able.set(id, each)
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error
      first ??= error
      refused.push({ id, code: error.code, detail: error.message })
    }
  }
  if (able.size === 0) throw first!
  const highest = [...able.values()].filter(([, ...above]) => !above.some((job) => able.has(job.id)))
  return { paths: highest, refused }
}

function refuseUnlessFailed([job, parent, ...above]: readonly PathJob[]): void {
  if ([job, parent, ...above].some((each) => each?.superseded === true)) throw superseded(job!)
  if (!isFailed(job!.state)) throw notFailed(job!)
  if (job!.stillborn && parent?.kind === 'fanout')
    throw illegal(job!.id, `it never ran, and would fail in the same way: ${job!.error}`)
}

/** The composites among these that have begun. */
function begunIn(jobs: readonly EndedJob[]): string[] {
  return jobs.filter(({ begun }) => begun !== null).map(({ id }) => id)
}

/** @returns the JSON of the step's new job, if it is given an input. */
function planStep(
  plan: RetryPlan,
  job: EndedJob,
  tree: EndedTree,
  name: string,
  { input }: TreeRetryOptions,
): string | null {
  const body = bodyOf(job.begun!, tree.graphs)
  const position = body.positions.get(name)
  if (position === undefined) throw unknownStep(job, body, name)
  checkReached(job, body, position, tree)
  planFrom(plan, job, position, tree)
  if (input === undefined) return null
  const { step } = body.steps[position]!
  if (step.run.kind === 'group')
    throw noInput(job, name, 'it is a group, which uses the enclosing scope and has no input of its own')
  if (step.each !== undefined)
    throw noInput(job, name, 'it is a fan-out: the input of each child is made from its item')
  const text = toStorableJson(input, `input of step ${name}`)
  const place = { id: job.id, node: job.begun!.node }
  const effect = { kind: 'start', step: name, input: JSON.parse(text) as JsonValue } as const
  return JSON.stringify({
    ...toChild(tree.graphs.get(job.begun!.graph), place, step, position, effect),
    state: 'waiting',
  })
}

/** A step that its needs do not lead to would only be skipped, or not be decided at all. */
function checkReached(job: EndedJob, { steps }: BodyPlan, position: number, tree: EndedTree): void {
  const { step, needs } = steps[position]!
  const states = new Map(tree.childrenOf(job.id).map((child) => [child.index, child.state]))
  const nameOfStep = (at: number) => steps[at]!.step.name
  const undecided = needs.find((need) => !states.has(need))
  if (undecided !== undefined)
    throw notReached(
      job,
      step.name,
      `${nameOfStep(undecided)} before it has not run: run the failed jobs again instead`,
    )
  if (step.on === 'success') {
    const broken = needs.find((need) => states.get(need) !== 'completed')
    if (broken === undefined) return
    const how = states.get(broken) === 'failed' ? 'failed' : `was ${states.get(broken)}`
    throw notReached(
      job,
      step.name,
      `${nameOfStep(broken)} before it ${how}: run again from there, or run the failed jobs again`,
    )
  }
  if (step.on === 'failure' && !needs.some((need) => isFailed(states.get(need)!)))
    throw notReached(job, step.name, 'it handles a failure, and nothing before it failed')
}

async function apply(
  db: Queryable,
  root: string,
  { composites, leaves, fanouts, superseded }: RetryPlan,
  child: string | null,
): Promise<RetryCounts | undefined> {
  try {
    return await retryTree(db, {
      root,
      composites: [...composites.keys()],
      versions: [...composites.values()],
      leaves,
      fanouts,
      superseded,
      child,
    })
  } catch (error) {
    if (sqlState(error) !== '23505' || !isOfKey(error)) throw translateError(error)
    throw new SluiceError(
      'KEY_CONFLICT',
      `job ${root} cannot run again, because another active job has its key`,
    )
  }
}

function isOfKey(error: unknown): boolean {
  return error instanceof Error && 'constraint' in error && error.constraint === 'job_keys_pkey'
}

async function loadTree(
  db: Queryable,
  path: readonly PathJob[],
  children: readonly EndedChild[],
): Promise<EndedTree> {
  const byParent = new Map<string, EndedJob[]>()
  for (const child of children) {
    const siblings = byParent.get(child.parentId)
    if (siblings === undefined) byParent.set(child.parentId, [toEnded(child)])
    else siblings.push(toEnded(child))
  }
  const graphs = new GraphCache(db)
  await graphs.load([...path, ...children].map(({ graph }) => graph))
  return { childrenOf: (id) => byParent.get(id) ?? [], graphs }
}

function toEnded(job: PathJob | EndedChild): EndedJob {
  const { id, parentId, index, kind, state, stillborn, graph, node, version } = job
  const begun = graph === null ? null : { graph, node: node!, version: version! }
  return { id, parentId, index, kind, state, stillborn, begun }
}
