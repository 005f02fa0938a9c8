import type { Queryable } from '../db/database.ts'
import { checkOptions, checkWhole } from '../model/argument.ts'
import { type CompositeKind, type JobStatus, statusOf } from '../model/job.ts'
import { checkJobId } from '../model/job-id.ts'
import { type Fold, loadTreeChildren, loadTreeNodes, type TreeRow } from '../store/load-tree-nodes.ts'
import { jobNotFound } from './job-control.ts'

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
}

/** A screen or two of a fan-out, however many children it has. */
const FOLD: Fold = { wide: 20, most: 500, ends: 3, failures: 10 }
/** Nodes of one answer: some 2 MB as JSON. Upper levels come first. */
const MAX_NODES = 5000
const MAX_DEPTH = 1_000_000

interface Draft extends Omit<TreeNode, 'children' | 'hidden'> {
  children: Draft[]
  hidden: number
}

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
  const top = toDraft(row)
  let level = [top].filter(hasChildren)
  let nodes = 1
  for (let below = 0; below < depth && level.length > 0 && nodes < MAX_NODES; below++) {
    const rows = await loadTreeChildren(
      db,
      level.map((node) => node.id),
      FOLD,
    )
    nodes += rows.length
    level = attach(level, rows).filter(hasChildren)
  }
  return top
}

/** @returns the nodes of the next level. */
function attach(level: readonly Draft[], rows: readonly TreeRow[]): Draft[] {
  const parents = new Map(level.map((node) => [node.id, node]))
  const drafts = rows.map(toDraft)
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

function toDraft(row: TreeRow): Draft {
  const { state, total, completed, failed, cancelled, window, inFlight, ...node } = row
  return {
    ...node,
    status: statusOf(state),
    ...(node.kind === 'fanout' ? { counts: { total, completed, failed, cancelled, window, inFlight } } : {}),
    children: [],
    hidden: total,
  }
}
