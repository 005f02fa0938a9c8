import type { Queryable } from '../../db/database.ts'
import { type EarlierAttempt, listEarlierAttempts } from '../../store/list-earlier-attempts.ts'
import { readClock } from '../../store/read-clock.ts'
import { loadTree, type TreeNode } from './tree.ts'
import { type Waterfall, waterfallOf } from './waterfall.ts'

/** @throws {SluiceError} `JOB_NOT_FOUND`. */
export async function readWaterfall(db: Queryable, id: string): Promise<Waterfall> {
  const tree = await loadTree(db, id)
  const earlier = byJob(await listEarlierAttempts(db, repeatedIds(tree)))
  return waterfallOf(tree, await readClock(db), earlier)
}

/** Jobs that were started more than once. */
function repeatedIds(node: TreeNode): string[] {
  const own = node.kind === null && node.attempts > 1 ? [node.id] : []
  return [...own, ...node.children.flatMap(repeatedIds)]
}

function byJob(attempts: readonly EarlierAttempt[]): Map<string, EarlierAttempt[]> {
  const found = new Map<string, EarlierAttempt[]>()
  for (const attempt of attempts) found.set(attempt.jobId, [...(found.get(attempt.jobId) ?? []), attempt])
  return found
}
