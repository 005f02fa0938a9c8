import { type CompositeKind, isFailed, type JobState } from '../../model/job.ts'
import { bodyAt, type Graph } from '../graph.ts'
import { type BodyPlan, planOf } from '../plan.ts'

/** A job of a tree that has ended, as far as a rerun of parts of the tree looks at it. */
export interface EndedJob {
  readonly id: string
  readonly parentId: string | null
  /** Its place among its siblings. */
  readonly index: number | null
  readonly kind: CompositeKind | null
  readonly state: JobState
  /** It ended as it was made: it could not be rendered, or its task was not known. */
  readonly stillborn: boolean
  /** Of a composite that has begun. */
  readonly begun: BegunComposite | null
}

export interface BegunComposite {
  readonly graph: string
  readonly node: string
  readonly version: number
}

/** What becomes of the jobs of a tree, as `sluice.retry_tree_v1` takes it. */
export interface RetryPlan {
  /** Composites that run again, with the versions the plan was made from. */
  readonly composites: Map<string, number>
  /** Leaf jobs that run again. */
  readonly leaves: string[]
  /** Fan-outs whose failed and cancelled leaf jobs all run again. */
  readonly fanouts: string[]
  /** Jobs whose steps are decided anew. */
  readonly superseded: string[]
}

/** A tree that has ended, as far as it was loaded. */
export interface EndedTree {
  readonly childrenOf: (id: string) => readonly EndedJob[]
  readonly graphs: Graphs
}

/** Whoever has the graphs of a tree at hand, by their hashes. */
export interface Graphs {
  get(hash: string): Graph
}

export function emptyPlan(): RetryPlan {
  return { composites: new Map(), leaves: [], fanouts: [], superseded: [] }
}

/**
 * Runs a job again that failed or was cancelled: a leaf itself, a composite with what made it fail. Children that
 * completed stay as they are; what follows in the same workflow from what runs again is decided anew.
 */
function planFailed(plan: RetryPlan, top: EndedJob, tree: EndedTree): void {
  const open = [top]
  for (let job = open.pop(); job !== undefined; job = open.pop()) {
    if (job.begun === null) {
      if (job.kind === null) plan.leaves.push(job.id)
      continue
    }
    plan.composites.set(job.id, job.begun.version)
    const children = tree.childrenOf(job.id)
    if (job.kind === 'fanout') {
      plan.fanouts.push(job.id)
      open.push(...children.filter((child) => child.begun !== null && isFailed(child.state)))
    } else open.push(...planBody(plan, bodyOf(job.begun, tree.graphs), children))
  }
}

/**
 * Runs several jobs of one tree again in one rerun, with everything above them.
 *
 * What follows from one of them is decided anew, so it does not also run again by itself.
 *
 * @param paths From each job to the root. None of the jobs is below another.
 */
export function planTogether(paths: readonly (readonly EndedJob[])[], tree: EndedTree): RetryPlan {
  const decidedAnew = emptyPlan()
  for (const path of paths) planAncestors(decidedAnew, path, tree)
  const following = new Set(decidedAnew.superseded)
  const plan = emptyPlan()
  for (const path of paths) {
    if (path.some(({ id }) => following.has(id))) continue
    const top = path[0]!
    if (top.stillborn) plan.superseded.push(top.id)
    else planFailed(plan, top, tree)
    planAncestors(plan, path, tree)
  }
  return plan
}

/** @returns what is to be looked into further. */
function planBody(plan: RetryPlan, body: BodyPlan, children: readonly EndedJob[]): EndedJob[] {
  const failures = unhandledFailures(body, children)
  const following = dependentsOf(
    body,
    failures.map(({ index }) => index!),
  )
  const again = failures.filter(({ index }) => !following.has(index!))
  for (const child of children) if (following.has(child.index!)) plan.superseded.push(child.id)
  for (const child of again) if (child.stillborn) plan.superseded.push(child.id)
  return again.filter((child) => !child.stillborn)
}

/** A step and everything that follows from it in the same workflow or group is decided anew. */
export function planFrom(plan: RetryPlan, job: EndedJob, position: number, tree: EndedTree): void {
  plan.composites.set(job.id, job.begun!.version)
  const following = dependentsOf(bodyOf(job.begun!, tree.graphs), [position])
  for (const { id, index } of tree.childrenOf(job.id))
    if (index === position || following.has(index!)) plan.superseded.push(id)
}

/**
 * What is above a job that runs again runs again too, and what follows from it there is decided anew.
 *
 * @param path From the job to the root.
 */
export function planAncestors(plan: RetryPlan, path: readonly EndedJob[], tree: EndedTree): void {
  path.slice(1).forEach((ancestor, n) => {
    plan.composites.set(ancestor.id, ancestor.begun!.version)
    if (ancestor.kind === 'fanout') return
    const following = dependentsOf(bodyOf(ancestor.begun!, tree.graphs), [path[n]!.index!])
    for (const { id, index } of tree.childrenOf(ancestor.id))
      if (following.has(index!)) plan.superseded.push(id)
  })
}

/** Children that failed, or were cancelled, and whose failure no step has handled. */
export function unhandledFailures<Job extends Pick<EndedJob, 'index' | 'state'>>(
  body: BodyPlan,
  children: readonly Job[],
): Job[] {
  const completed = new Set(children.filter(({ state }) => state === 'completed').map(({ index }) => index))
  return children.filter(
    ({ index, state }) =>
      isFailed(state) && !body.steps[index!]!.handlers.some((handler) => completed.has(handler)),
  )
}

/** The positions of all steps that come after some of these, directly or not. */
export function dependentsOf(body: BodyPlan, positions: readonly number[]): Set<number> {
  const from = new Set(positions)
  const found = new Set<number>()
  for (const { position, needs } of body.order)
    if (needs.some((need) => from.has(need) || found.has(need))) found.add(position)
  return found
}

/** The steps of a composite that has begun. */
export function bodyOf({ graph, node }: Pick<BegunComposite, 'graph' | 'node'>, graphs: Graphs): BodyPlan {
  return planOf(bodyAt(graphs.get(graph), node))
}
