import type { Queryable } from '../../db/database.ts'
import { checkOptions, checkWhole } from '../../model/argument.ts'
import { type CompositeKind, type JobStatus, statusOf } from '../../model/job.ts'
import { checkJobId } from '../../model/job-id.ts'
import { type Fold, loadTreeChildren, loadTreeNodes, type TreeRow } from '../../store/load-tree-nodes.ts'
import { bodyAt, type Step } from '../../workflow/graph.ts'
import { jobNotFound } from '../operate/job-control.ts'
import { findFanOutFailures } from '../workflows/fan-out-failure.ts'
import { GraphCache } from '../workflows/graph-cache.ts'

export interface TreeOptions {
  /** Levels below the job; all unless said otherwise. */
  readonly depth?: number
}

/** A job with what is below it. Its input, result and log are read by its id. */
export interface TreeNode {
  readonly id: string
  readonly parentId: string | null
  /** Its neighbours, also where these are folded away. */
  readonly previousId: string | null
  readonly nextId: string | null
  readonly firstChildId: string | null
  /** The name of its step in the workflow, and its place among its siblings. */
  readonly step: string | null
  readonly index: number | null
  /** `null`: a task. */
  readonly kind: CompositeKind | null
  readonly task: string
  readonly status: JobStatus
  readonly error: string | null
  /** Starts so far; of a composite 0 until it is run again. */
  readonly attempts: number
  readonly submittedAt: Date
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  /** Jobs that were in this place before a rerun, oldest first. */
  readonly earlierIds: readonly string[]
  /** Of a fan-out. */
  readonly counts?: FanoutCounts
  /** In order, except that of a wide fan-out those that failed come first. */
  readonly children: readonly TreeNode[]
  /** Direct children that are not among `children`: too many, or too deep. */
  readonly hidden: number
  /** Of a workflow or group whose children are all here: its steps that the run has not come to. Absent: there are none. */
  readonly notReached?: NotReached
}

/** Steps that have become no job yet, in the order they are written; the first hundred of them by name. */
export interface NotReached {
  readonly total: number
  readonly steps: readonly {
    readonly step: string
    readonly kind: CompositeKind | 'task'
    /** The task or workflow; `null` for a group. */
    readonly runs: string | null
  }[]
}

/** How the children of a fan-out stand. */
export interface FanoutCounts {
  readonly total: number
  readonly completed: number
  readonly failed: number
  readonly cancelled: number
  /** How many may be in flight; `null`: no limit. */
  readonly window: number | null
  /** How many have been let start and have not ended. */
  readonly inFlight: number
  /** While it is paused: the window that a resume goes back to. */
  readonly resumesAt?: number
  /** While it runs: why it cannot succeed any more. Absent: it still can. */
  readonly willFail?: string
}

/** A screen or two of a fan-out, however many children it has. */
const FOLD: Fold = { wide: 20, most: 500, ends: 3, failures: 10 }
/** Nodes of one answer: some 2 MB as JSON. Upper levels come first. */
const MAX_NODES = 5000
const MAX_DEPTH = 1_000_000
/** Of one workflow or group. */
const MOST_NOT_REACHED = 100

interface Draft extends Omit<TreeNode, 'children' | 'hidden' | 'notReached' | 'counts'> {
  children: Draft[]
  counts?: FanoutCounts
  hidden: number
  notReached?: NotReached
}

/** Where the definition of a node is. */
type Places = Map<Draft, { readonly graph: string; readonly node: string }>

/**
 * A job with what is below it, level by level: one statement each, whatever the width of the tree.
 *
 * @throws {SluiceError} `JOB_NOT_FOUND`; `INVALID_ARGUMENT`.
 */
export async function loadTree(db: Queryable, id: string, options: TreeOptions = {}): Promise<TreeNode> {
  checkOptions(options, ['depth'], 'options')
  const depth = options.depth === undefined ? MAX_DEPTH : checkWhole(options.depth, 'depth', 0, MAX_DEPTH)
  const [row] = await loadTreeNodes(db, [checkJobId(id)])
  if (row === undefined) throw jobNotFound(db, id)
  const places: Places = new Map()
  const top = toDraft(row, places)
  let level = [top].filter(hasChildren)
  let nodes = 1
  for (let below = 0; below < depth && level.length > 0 && nodes < MAX_NODES; below++) {
    const rows = await loadTreeChildren(
      db,
      level.map((node) => node.id),
      FOLD,
    )
    nodes += rows.length
    level = attach(level, rows, places).filter(hasChildren)
  }
  if (depth > 0) await tellNotReached(db, places)
  await tellFailing(db, places)
  return top
}

/** Of fan-outs that run: whether they can still succeed. */
async function tellFailing(db: Queryable, places: Places): Promise<void> {
  const running = [...places].flatMap(([draft, place]) =>
    draft.counts !== undefined && draft.status === 'running'
      ? [{ id: draft.id, ...draft.counts, ...place }]
      : [],
  )
  const failing = await findFanOutFailures(db, running)
  for (const [draft] of places) {
    const willFail = failing.get(draft.id)
    if (willFail !== undefined) draft.counts = { ...draft.counts!, willFail }
  }
}

/** Where all children of a workflow or group are known, its definition tells what is still to come. */
async function tellNotReached(db: Queryable, places: Places): Promise<void> {
  const whole = [...places].filter(([{ hidden, kind }]) => hidden === 0 && kind !== 'fanout')
  const graphs = new GraphCache(db)
  await graphs.load(whole.map(([, { graph }]) => graph))
  for (const [draft, { graph, node }] of whole) {
    const reached = new Set(draft.children.map(({ index }) => index))
    const left = bodyAt(graphs.get(graph), node).steps.filter((_, index) => !reached.has(index))
    if (left.length === 0) continue
    draft.notReached = { total: left.length, steps: left.slice(0, MOST_NOT_REACHED).map(describeStep) }
  }
}

/** What a step runs, as it is shown. */
export function describeStep({ name, run, each }: Step): NotReached['steps'][number] {
  return {
    step: name,
    kind: each === undefined ? run.kind : 'fanout',
    runs: run.kind === 'task' ? run.task : run.kind === 'workflow' ? run.workflow : null,
  }
}

/** @returns the nodes of the next level. */
function attach(level: readonly Draft[], rows: readonly TreeRow[], places: Places): Draft[] {
  const parents = new Map(level.map((node) => [node.id, node]))
  const drafts = rows.map((row) => toDraft(row, places))
  for (const draft of drafts) parents.get(draft.parentId!)?.children.push(draft)
  for (const parent of level) {
    parent.hidden = Math.max(0, parent.hidden - parent.children.length)
    if (parent.kind === 'fanout' && parent.hidden > 0) parent.children.sort(byUrgency)
  }
  return drafts
}

function byUrgency(left: Draft, right: Draft): number {
  return urgency(left) - urgency(right) || left.index! - right.index!
}

function urgency({ status }: Draft): number {
  return status === 'failed' ? 0 : 1
}

function hasChildren({ kind, hidden }: Draft): boolean {
  return kind !== null && hidden > 0
}

function toDraft(row: TreeRow, places: Places): Draft {
  const { state, total, completed, failed, cancelled, window, windowBefore, inFlight, graph, node, ...rest } =
    row
  const resumes = windowBefore === null ? {} : { resumesAt: windowBefore }
  const draft: Draft = {
    ...rest,
    status: statusOf(state),
    ...(rest.kind === 'fanout'
      ? { counts: { total, completed, failed, cancelled, window, inFlight, ...resumes } }
      : {}),
    children: [],
    hidden: total,
  }
  if (graph !== null && node !== null) places.set(draft, { graph, node })
  return draft
}
