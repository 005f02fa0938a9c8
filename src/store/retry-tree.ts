import { type Queryable, statement } from '../db/database.ts'

export interface RetryRequest {
  readonly root: string
  readonly composites: readonly string[]
  readonly versions: readonly number[]
  readonly leaves: readonly string[]
  readonly fanouts: readonly string[]
  readonly superseded: readonly string[]
  /** JSON of a child, or `null`. */
  readonly child: string | null
}

export interface RetryCounts {
  /** Leaf jobs that are back in line. */
  readonly jobs: number
  /** Steps that had been decided and are decided anew. */
  readonly superseded: number
}

const RETRY = statement(
  'retry_tree',
  'select jobs, superseded from sluice.retry_tree_v1($1, $2, $3, $4, $5, $6, $7::text::jsonb)',
)

/** Carries out a plan, or nothing of it when the tree has moved since: `undefined`. */
export async function retryTree(db: Queryable, request: RetryRequest): Promise<RetryCounts | undefined> {
  const { root, composites, versions, leaves, fanouts, superseded, child } = request
  const rows = await db.run<RetryCounts & Record<string, unknown>>(RETRY, [
    root,
    composites,
    versions,
    leaves,
    fanouts,
    superseded,
    child,
  ])
  return rows[0]
}
