import type { Sluice } from '../../app/app.ts'
import type { WatchedNode, WatchedTree } from '../../engine/streams/tree-watch.ts'

/** Waiting this long while nothing else runs is worth a word. */
const LONG_MS = 3000

/** What stands in the way of a run when none of its jobs moves, in words. */
export async function obstacleOf(app: Sluice, view: WatchedTree): Promise<string | undefined> {
  const leaves = leavesOf(view.root)
  if (leaves.some(({ status }) => status === 'running')) return undefined
  const waiting = leaves.find(({ status, readyAt }) => {
    if (status === 'awaiting_approval') return true
    return readyAt !== undefined && view.at.getTime() - readyAt.getTime() > LONG_MS
  })
  if (waiting?.id === undefined) return undefined
  const { reason } = await app.why(waiting.id)
  return `job ${waiting.id} (${waiting.name}): ${reason}`
}

/** The tasks of a tree that can be seen. */
export function leavesOf(node: WatchedNode): WatchedNode[] {
  return node.kind === 'task' ? [node] : node.children.flatMap(leavesOf)
}
