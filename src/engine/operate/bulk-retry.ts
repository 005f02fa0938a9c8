import type { Database, Queryable } from '../../db/database.ts'
import { transactWithRetries } from '../../db/with-retries.ts'
import { SluiceError } from '../../errors.ts'
import { addReruns, NO_RERUNS, type Reruns } from '../../model/reruns.ts'
import { findRoots, type RootedJob } from '../../store/find-roots.ts'
import { type Found, readPageOfIds } from '../views/job-list.ts'
import {
  type BulkAnswer,
  type BulkAuthor,
  type BulkRun,
  MAX_REFUSED,
  type Refusal,
  writeDown,
} from './bulk-run.ts'
import { retryFacts } from './retry-facts.ts'
import { planRetry, type Retried, retry } from './retry-tree.ts'

/** Jobs that are read before the first is retried: siblings of one tree may lie far apart in a list. */
const READ_AT_ONCE = 10_000
const MOST_READ = 100_000

/** A tree with the jobs in it that were found, or a job of its own. */
interface Tree {
  readonly root: RootedJob
  readonly ids: string[]
  /** Where its first job was found. */
  readonly position: string
}

/**
 * Runs failed jobs again, one rerun a tree: what was found in a tree runs again together.
 *
 * Trees that were cancelled on request are left out, unless the filter asks for cancelled jobs.
 */
export async function retryInBulk(db: Database, calls: Queryable, run: BulkRun): Promise<BulkAnswer> {
  const { search, author, dryRun, end } = run
  const { found, next } = await findAll(calls, run)
  const trees = await byTree(calls, found)
  const refused: Refusal[] = []
  let reruns: Reruns = NO_RERUNS
  let changed = 0
  let last: string | undefined
  for (const tree of trees) {
    if (last !== undefined && performance.now() > end)
      return { matched: countUpTo(found, last), changed, refused, next: last, reruns }
    last = tree.position
    if (tree.root.rootState === 'cancelled' && !search.states!.includes('cancelled')) {
      reruns = addReruns(reruns, { ...NO_RERUNS, leftOut: tree.ids.length })
      continue
    }
    try {
      const retried = await retryOne(db, tree, author, dryRun)
      reruns = addReruns(reruns, toReruns(tree, retried))
      changed += dryRun ? 0 : tree.ids.length - retried.refused.length
      refused.push(...retried.refused.slice(0, MAX_REFUSED - refused.length))
    } catch (error) {
      if (!(error instanceof SluiceError) || error.status >= 500) throw error
      for (const id of tree.ids.slice(0, MAX_REFUSED - refused.length))
        refused.push({ id, code: error.code, detail: error.message })
    }
  }
  return { matched: found.length, changed, refused, next, reruns }
}

/** All that the filter finds, as long as it is not too many and time is left. */
async function findAll(
  calls: Queryable,
  { search, cursor, end }: BulkRun,
): Promise<{ found: Found[]; next: string | null }> {
  const found: Found[] = []
  let position = cursor
  for (;;) {
    const page = await readPageOfIds(calls, search, position, READ_AT_ONCE)
    for (const each of page.found) found.push(each)
    if (page.next === null || found.length >= MOST_READ || performance.now() > end)
      return { found, next: page.next }
    position = page.next
  }
}

/** In the order in which they were found. */
async function byTree(calls: Queryable, found: readonly Found[]): Promise<readonly Tree[]> {
  const trees = new Map<string, Tree>()
  for (let at = 0; at < found.length; at += READ_AT_ONCE) {
    const part = found.slice(at, at + READ_AT_ONCE)
    const roots = await findRoots(
      calls,
      part.map(({ id }) => id),
    )
    for (const { id, position } of part) {
      const root = roots.get(id)
      if (root === undefined) continue
      const tree = trees.get(root.rootId)
      if (tree === undefined) trees.set(root.rootId, { root, ids: [id], position })
      else tree.ids.push(id)
    }
  }
  return [...trees.values()]
}

/** In a transaction of its own: a job whose key is taken, or that the ceiling rejects, does not stop the others. */
async function retryOne(
  db: Database,
  { root, ids }: Tree,
  author: BulkAuthor,
  dryRun: boolean,
): Promise<Retried> {
  const options = { failed: true, ...(ids.includes(root.rootId) ? {} : { only: ids }) }
  // A job of its own needs no plan: counting 10,000 of them would take as long as retrying them.
  if (dryRun && !root.isTree)
    return { root: root.rootId, name: root.name, jobs: 1, superseded: 0, refused: [] }
  if (dryRun) return planRetry(db, root.rootId, options)
  return transactWithRetries(db, async (tx) => {
    const retried = await retry(tx, root.rootId, options, author.name)
    const after = retryFacts(retried, options)
    await writeDown(tx, author, 'job.retry', [{ target: `job ${root.rootId}`, before: null, after }])
    return retried
  })
}

function toReruns({ root }: Tree, { jobs }: Retried): Reruns {
  const workflows = root.isTree ? [{ name: root.name, runs: 1, jobs }] : []
  return { jobs, workflows, leftOut: 0 }
}

/** How many jobs were found up to a position, that one included. */
function countUpTo(found: readonly Found[], position: string): number {
  return found.findIndex((each) => each.position === position) + 1
}
