import { setTimeout as delay } from 'node:timers/promises'
import type { Queryable } from '../db/database.ts'
import { sqlState, translateError } from '../db/sqlstate.ts'
import { SluiceError } from '../errors.ts'
import { checkFlag, checkOptions, checkText, invalidArgument } from '../model/argument.ts'
import { isFailed, isFinal, statusOf } from '../model/job.ts'
import { checkJobId } from '../model/job-id.ts'
import { type JsonValue, toStorableJson } from '../model/json.ts'
import { suggest } from '../model/suggest.ts'
import { findActiveJob } from '../store/find-active-job.ts'
import { type EndedChild, loadEndedChildren } from '../store/load-ended-children.ts'
import { loadPath, type PathJob } from '../store/load-path.ts'
import { type RetryCounts, retryTree } from '../store/retry-tree.ts'
import { toChild } from '../workflow/advance/decide.ts'
import {
  bodyOf,
  type EndedJob,
  type EndedTree,
  emptyPlan,
  planAncestors,
  planFailed,
  planFrom,
  type RetryPlan,
} from '../workflow/advance/retry-plan.ts'
import type { BodyPlan } from '../workflow/plan.ts'
import { GraphCache } from './graph-cache.ts'
import { jobNotFound, rerun } from './job-control.ts'

/** What of a tree is to run again. */
export interface TreeRetryOptions {
  /** What failed or was cancelled, and what follows from it. */
  readonly failed?: boolean
  /** This step of a workflow or group, and what follows from it. */
  readonly from?: string
  /** What that step gets in place of its rendered input. */
  readonly input?: unknown
}

/** What was put in motion again. */
export interface Retried extends RetryCounts {
  /** The root of the tree: it runs again. */
  readonly root: string
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
 * @throws {SluiceError} `ILLEGAL_TRANSITION` when some job of the tree has not ended, or nothing of it can run again;
 *   `KEY_CONFLICT` when another active job has the root's key; `INVALID_ARGUMENT`; `NOT_STORABLE`; `JOB_NOT_FOUND`.
 */
export async function retry(db: Queryable, id: string, options: TreeRetryOptions = {}): Promise<Retried> {
  checkRetryOptions(options)
  checkJobId(id)
  for (let tried = 0; tried < TRIES; tried++) {
    const path = await loadPath(db, id)
    const [job] = path
    if (job === undefined) throw jobNotFound(db, id)
    if (job.kind === null && job.parentId === null) return retryPlain(db, job, options)
    const counts = await retryOnce(db, path, options)
    if (counts !== undefined) return { root: path.at(-1)!.id, ...counts }
    await delay(PAUSE_MS)
  }
  throw illegal(id, 'others are changing its tree just now: try again')
}

function checkRetryOptions(options: TreeRetryOptions): void {
  checkOptions(options, ['failed', 'from', 'input'], 'options')
  if (options.failed !== undefined) checkFlag(options.failed, 'failed')
  if (options.from !== undefined) checkText(options.from, 'from')
  if (options.failed === true && options.from !== undefined)
    throw new SluiceError('INVALID_ARGUMENT', 'failed and from exclude each other: give one of them')
  if ('input' in options && options.input !== undefined && options.from === undefined) {
    throw new SluiceError(
      'INVALID_ARGUMENT',
      'input: only a step can be given another input: name it with from',
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
  return { root: job.id, jobs: 1, superseded: 0 }
}

async function retryOnce(
  db: Queryable,
  path: readonly PathJob[],
  options: TreeRetryOptions,
): Promise<RetryCounts | undefined> {
  const job = path[0]!
  const root = path.at(-1)!
  if (path.some(({ superseded }) => superseded))
    throw illegal(job.id, 'it is history: an earlier rerun has put another in its place')
  const active = await findActiveJob(db, root.id)
  if (active !== undefined) throw stillActive(job, root, active)
  const { from } = options
  const whole = from === undefined && (options.failed === true || job.kind === null)
  if (from === undefined && !whole) {
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `job ${job.id} is a ${nameOf(job)}: give failed to run again what failed in it, or from with the name of a step`,
      { details: { jobId: job.id } },
    )
  }
  if (whole && !isFailed(job.state)) throw notFailed(job)
  if (from !== undefined && job.kind === null) throw noSteps(job, 'it runs a task')
  if (from !== undefined && job.kind === 'fanout')
    throw noSteps(job, 'it is a fan-out; the jobs in it, or the workflow it is in, may have some')

  const ended = path.map(toEnded)
  const others = ended.filter(({ begun }) => begun !== null).map(({ id }) => id)
  const tree = await loadTree(db, path, await loadEndedChildren(db, whole ? [job.id] : [], others))
  const plan = emptyPlan()
  let child: string | null = null
  if (from === undefined) planTop(plan, ended, tree, job)
  else child = planStep(plan, ended[0]!, tree, from, options)
  planAncestors(plan, ended, tree)
  return apply(db, root.id, plan, child)
}

function planTop(plan: RetryPlan, [top, parent]: readonly EndedJob[], tree: EndedTree, job: PathJob): void {
  if (!top!.stillborn) planFailed(plan, top!, tree)
  else if (parent?.kind !== 'fanout') plan.superseded.push(top!.id)
  else throw illegal(job.id, `it never ran, and would fail in the same way: ${job.error}`)
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
    throw noInput(job, name, 'it is a group, which reads what is around it and has no input of its own')
  if (step.each !== undefined)
    throw noInput(job, name, 'it is a fan-out: each of its children gets an input made from its item')
  const text = toStorableJson(input, `input of step ${name}`)
  const place = { id: job.id, node: job.begun!.node }
  const effect = { kind: 'start', step: name, input: JSON.parse(text) as JsonValue } as const
  return JSON.stringify({ ...toChild(place, step, position, effect), state: 'waiting' })
}

/** A step that its needs do not lead to would only be skipped, or not be decided at all. */
function checkReached(job: EndedJob, { steps }: BodyPlan, position: number, tree: EndedTree): void {
  const { step, needs } = steps[position]!
  const states = new Map(tree.childrenOf(job.id).map((child) => [child.index, child.state]))
  const nameOfStep = (at: number) => steps[at]!.step.name
  const undecided = needs.find((need) => !states.has(need))
  if (undecided !== undefined)
    throw notReached(job, step.name, `${nameOfStep(undecided)} before it has not run: run again what failed`)
  if (step.on === 'success') {
    const broken = needs.find((need) => states.get(need) !== 'completed')
    if (broken === undefined) return
    const how = states.get(broken) === 'failed' ? 'failed' : `was ${states.get(broken)}`
    throw notReached(
      job,
      step.name,
      `${nameOfStep(broken)} before it ${how}: run again from there, or what failed`,
    )
  }
  if (step.on === 'failure' && !needs.some((need) => isFailed(states.get(need)!)))
    throw notReached(job, step.name, 'it is there for a failure, and nothing before it failed')
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
    throw new SluiceError('KEY_CONFLICT', `job ${root} cannot run again: another active job has its key`, {
      details: { jobId: root },
    })
  }
}

function isOfKey(error: unknown): boolean {
  return error instanceof Error && 'constraint' in error && error.constraint === 'jobs_active_key'
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

function nameOf({ kind }: PathJob): string {
  return kind === 'fanout' ? 'fan-out' : (kind ?? 'task')
}

function illegal(id: string, why: string): SluiceError {
  return new SluiceError('ILLEGAL_TRANSITION', `job ${id} cannot run again: ${why}`, {
    details: { jobId: id },
  })
}

function stillActive(job: PathJob, root: PathJob, active: Pick<PathJob, 'id' | 'state'>): SluiceError {
  const status = statusOf(active.state)
  const which =
    active.id === job.id
      ? 'it'
      : active.id === root.id
        ? `its root, job ${root.id},`
        : `job ${active.id} in its tree`
  return illegal(job.id, `${which} is ${status}; all of a tree must have ended`)
}

function notFailed(job: PathJob): SluiceError {
  const advice =
    job.kind === 'workflow' || job.kind === 'group' ? '; name a step to run it again from there' : ''
  return illegal(job.id, `it is ${statusOf(job.state)}, so nothing in it has to be made good${advice}`)
}

function noSteps(job: PathJob, why: string): SluiceError {
  return new SluiceError('INVALID_ARGUMENT', `from: job ${job.id} has no steps: ${why}`, {
    details: { jobId: job.id, argument: 'from' },
  })
}

function unknownStep(job: EndedJob, { steps }: BodyPlan, name: string): SluiceError {
  const names = steps.map(({ step }) => step.name)
  const near = suggest(name, names)
  const advice = near === undefined ? `there are ${names.join(', ')}` : `did you mean ${near}?`
  const { message } = invalidArgument('from', name, `a step of job ${job.id}; ${advice}`)
  return new SluiceError('INVALID_ARGUMENT', message, { details: { jobId: job.id, argument: 'from' } })
}

function noInput(job: EndedJob, step: string, why: string): SluiceError {
  return new SluiceError('INVALID_ARGUMENT', `input: step ${step} cannot be given one: ${why}`, {
    details: { jobId: job.id, argument: 'input' },
  })
}

function notReached(job: EndedJob, step: string, why: string): SluiceError {
  return illegal(job.id, `step ${step} would not be taken, since ${why}`)
}
