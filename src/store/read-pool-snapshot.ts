import { type Queryable, statement } from '../db/database.ts'
import type { Labels } from '../model/fields/pool.ts'
import type { OpenRequest, PoolSituation } from '../model/pool-situation.ts'

export interface PoolRequest extends OpenRequest {
  readonly id: string
  readonly token: string
  /** Which ones have come. */
  readonly members: readonly number[]
  readonly instances: readonly { readonly member: number; readonly id: string }[]
  /** Since the provisioner was last asked what became of them. */
  readonly lookedMs: number
}

/** All that a pool decides by, and what it takes to act on it. */
export interface PoolLook extends PoolSituation {
  readonly labels: Labels
  /** Instances may be left of requests that have ended. */
  readonly stops: boolean
  /** The newest decision: one that is made on this look stands only while there is no newer. */
  readonly newest: string
  readonly request: PoolRequest | null
}

const LOOK = statement('read_pool_snapshot', 'select sluice.pool_snapshot_v1($1, $2) as look')

/** `undefined`: there is no such pool. */
export async function readPoolSnapshot(
  db: Queryable,
  pool: string,
  momentMs: number,
): Promise<PoolLook | undefined> {
  return (await db.run<{ look: PoolLook | null }>(LOOK, [pool, momentMs]))[0]?.look ?? undefined
}
