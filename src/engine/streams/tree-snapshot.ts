import type { ErrorDetail } from '../../model/error-detail.ts'
import { isFinal, statusOf } from '../../model/job.ts'
import { includes, type Snapshot, wholeXid } from '../../model/snapshot.ts'
import type { WatchedRow } from '../../store/watch-jobs.ts'

/** What is told of a job when it changes. */
export interface StateEvent {
  readonly id: string
  readonly parentId: string | null
  readonly step: string | null
  readonly index: number | null
  readonly task: string
  readonly kind: string | null
  readonly status: string
  readonly state: string
  readonly cancelling: boolean
  readonly attempt: number
  readonly failures: number
  readonly losses: number
  readonly priority: number
  readonly worker: string | null
  readonly error: string | null
  /** Of the job that is followed, where something was thrown. */
  readonly errorDetail?: ErrorDetail
  readonly readyAt: string
  readonly startedAt: string | null
  readonly finishedAt: string | null
}

/** What a running job tells of itself; of a fan-out, how its children stand as far as it has been told. */
export type ProgressEvent =
  | { readonly id: string; readonly progress: number; readonly message: string | null }
  | {
      readonly id: string
      readonly total: number
      readonly completed: number
      readonly failed: number
      readonly cancelled: number
    }

/** One job as it was at a look. */
export interface Node {
  readonly row: WatchedRow
  /** Its two halves as they are sent, and the transactions that made them so. */
  readonly state: string
  readonly stateXid: bigint
  readonly progress: string | undefined
  readonly progressXid: bigint
  /** It had ended at the look before too: all its lines were there then. */
  readonly settled: boolean
}

/** A job, or a tree, at one moment. */
export interface TreeSnapshot {
  readonly snapshot: Snapshot
  /** By id, oldest first; the one that is watched is there, or it does not exist. */
  readonly nodes: readonly Node[]
}

/**
 * What one look saw of a tree.
 *
 * What was written again with the same content counts as written when it was first seen so: rows change for reasons that
 * nobody has to hear of, such as a checkpoint.
 */
export function toTreeSnapshot(
  rows: readonly WatchedRow[],
  snapshot: Snapshot,
  before: TreeSnapshot | undefined,
): TreeSnapshot {
  const known = new Map(before?.nodes.map((node) => [node.row.id, node]))
  return { snapshot, nodes: rows.map((row) => toNode(row, snapshot, known.get(row.id))) }
}

function toNode(row: WatchedRow, snapshot: Snapshot, before: Node | undefined): Node {
  const state = JSON.stringify(toStateEvent(row))
  const told = progressOf(row)
  const progress = told === undefined ? undefined : JSON.stringify(told)
  const stateXid = before?.state === state ? before.stateXid : wholeXid(row.written, snapshot)
  const progressXid =
    before?.progress === progress
      ? before?.progressXid
      : row.told === null
        ? 0n
        : wholeXid(row.told, snapshot)
  const settled = before !== undefined && isFinal(before.row.state) && isFinal(row.state)
  return { row, state, stateXid, progress, progressXid: progressXid ?? 0n, settled }
}

/** True when somebody who has seen the first has something to be told of the second. */
export function differ(before: TreeSnapshot | undefined, now: TreeSnapshot | undefined): boolean {
  if (before === undefined || now === undefined) return before !== now
  return (
    before.nodes.length !== now.nodes.length ||
    now.nodes.some((node, at) => {
      const old = before.nodes[at]!
      return old.row.id !== node.row.id || old.state !== node.state || old.progress !== node.progress
    })
  )
}

/** One thing to tell: a job's state, or its progress. */
export interface Change {
  readonly node: Node
  readonly half: 0 | 1
}

/** What of a tree somebody has not been told who has seen what a snapshot includes. */
export function changesSince(tree: TreeSnapshot, seen: Snapshot | undefined): Change[] {
  const fresh = (xid: bigint) => seen === undefined || !includes(seen, xid)
  return tree.nodes.flatMap((node) => {
    const changes: Change[] = []
    if (fresh(node.stateXid)) changes.push({ node, half: 0 })
    if (node.progress !== undefined && fresh(node.progressXid)) changes.push({ node, half: 1 })
    return changes
  })
}

export function xidOf({ node, half }: Change): bigint {
  return half === 0 ? node.stateXid : node.progressXid
}

function toStateEvent(row: WatchedRow): StateEvent {
  const { id, parentId, step, index, task, kind, state, cancelling, attempt, failures, losses } = row
  return {
    id,
    parentId,
    step,
    index,
    task,
    kind,
    status: statusOf(state),
    state,
    cancelling,
    attempt,
    failures,
    losses,
    priority: row.priority,
    worker: row.worker,
    error: row.error,
    ...(row.detail !== null && { errorDetail: row.detail }),
    readyAt: row.readyAt.toISOString(),
    startedAt: row.startedAt?.toISOString() ?? null,
    finishedAt: row.finishedAt?.toISOString() ?? null,
  }
}

function progressOf({
  id,
  progress,
  message,
  total,
  completed,
  failed,
  cancelled,
}: WatchedRow): ProgressEvent | undefined {
  if (progress !== null) return { id, progress, message }
  if (total === null) return undefined
  return { id, total, completed: completed ?? 0, failed: failed ?? 0, cancelled: cancelled ?? 0 }
}
