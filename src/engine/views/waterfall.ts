import type { CompositeKind, JobStatus } from '../../model/job.ts'
import type { NotReached, TreeNode } from './tree.ts'

/** An attempt that another one followed. */
export interface PastAttempt {
  readonly startedAt: Date
  readonly endedAt: Date
  readonly ending: string
}

/** One bar of a waterfall. */
export interface Span {
  readonly id: string
  readonly parentId: string | null
  readonly step: string | null
  readonly index: number | null
  readonly kind: CompositeKind | null
  readonly task: string
  readonly status: JobStatus
  /** Levels below the top. */
  readonly depth: number
  readonly submittedAt: Date
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  /** Attempts before the last one, which `startedAt` and `finishedAt` are about: first to last. */
  readonly earlier: readonly PastAttempt[]
  /** Had it been faster, the whole would have been. */
  readonly critical: boolean
  /** Children that are not among the spans. */
  readonly hidden: number
  /** Steps of it that the run has not come to. */
  readonly notReached?: NotReached
}

export interface Waterfall {
  readonly since: Date
  /** The end of the whole, or now. */
  readonly until: Date
  /** Each after the one it belongs to, in the order of their starts; what has not started comes last. */
  readonly spans: readonly Span[]
  /** Tasks, and fan-outs that are folded, that the whole waited for, first to last. */
  readonly criticalIds: readonly string[]
}

/**
 * A tree as bars over time, with its critical path: from the end backwards, what ended last before the next could start.
 *
 * Siblings follow each other by their times, not by what the definition says they need: a step that waited for a slot that
 * another one held is on the path as well. Of fan-outs that are folded nothing inside is known; they are on it as a whole.
 */
export function waterfallOf(
  tree: TreeNode,
  now: Date,
  earlier: ReadonlyMap<string, readonly PastAttempt[]> = new Map(),
): Waterfall {
  const end = (node: TreeNode) => node.finishedAt ?? now
  const critical = new Set<string>()
  const path: string[] = []
  markCritical(tree, end, critical, path)
  const spans: Span[] = []
  flatten(tree, 0, { critical, earlier }, spans)
  return { since: tree.startedAt ?? tree.submittedAt, until: end(tree), spans, criticalIds: path.reverse() }
}

/** Adds to `path` from the last to the first. */
function markCritical(
  node: TreeNode,
  end: (node: TreeNode) => Date,
  critical: Set<string>,
  path: string[],
): void {
  critical.add(node.id)
  const ran = node.children.filter(({ startedAt }) => startedAt !== null)
  if (node.hidden > 0 || ran.length === 0) {
    path.push(node.id)
    return
  }
  const byEnd = [...ran].sort((one, other) => end(other).getTime() - end(one).getTime())
  // A child that is made when what it needs has ended, is made a moment later than that.
  let before = Number.POSITIVE_INFINITY
  for (const child of byEnd) {
    if (end(child).getTime() > before) continue
    markCritical(child, end, critical, path)
    before = child.startedAt!.getTime()
  }
}

interface Known {
  readonly critical: ReadonlySet<string>
  readonly earlier: ReadonlyMap<string, readonly PastAttempt[]>
}

function flatten(node: TreeNode, depth: number, known: Known, spans: Span[]): void {
  const { id, parentId, step, index, kind, task, status, submittedAt, startedAt, finishedAt, hidden } = node
  const own = { id, parentId, step, index, kind, task, status, submittedAt, startedAt, finishedAt, hidden }
  const { notReached } = node
  const earlier = (known.earlier.get(id) ?? []).map(({ startedAt, endedAt, ending }) => ({
    startedAt,
    endedAt,
    ending,
  }))
  const critical = known.critical.has(id)
  spans.push({ ...own, earlier, depth, critical, ...(notReached !== undefined && { notReached }) })
  const time = (each: TreeNode) => (each.startedAt ?? each.finishedAt)?.getTime() ?? Number.MAX_SAFE_INTEGER
  const inOrder = [...node.children].sort(
    (one, other) => time(one) - time(other) || (one.index ?? 0) - (other.index ?? 0),
  )
  for (const child of inOrder) flatten(child, depth + 1, known, spans)
}
