import { type Queryable, statement } from '../db/database.ts'

/** What waits in a lane that a pool's workers could run and nobody can. */
export interface LaneOverflow {
  readonly lane: string
  readonly jobs: number
  readonly waitedMs: number
  readonly perWorker: number | null
  readonly reason: string
}

export interface PoolRequest {
  readonly id: string
  readonly token: string
  readonly wanted: number
  /** `null`: the provisioner has not answered. */
  readonly started: number | null
  readonly arrived: number
  /** Which ones have come. */
  readonly members: readonly number[]
  readonly instances: readonly { readonly member: number; readonly id: string }[]
  readonly gone: number
  readonly abandoned: boolean
  readonly overdue: boolean
  /** Since the provisioner was last asked what became of them. */
  readonly lookedMs: number
}

/** All that a pool decides by, at one moment of the database. */
export interface PoolLook {
  readonly min: number
  readonly max: number
  readonly capacity: number
  readonly labels: Readonly<Record<string, string | number | boolean>>
  readonly cooldownMs: number
  readonly taking: number
  readonly leaving: number
  readonly returnable: number
  readonly overflow: readonly LaneOverflow[]
  readonly expected: number
  /** Instances may be left of requests that have ended. */
  readonly stops: boolean
  /** The newest decision: one that is made on this look stands only while there is no newer. */
  readonly newest: string
  readonly failures: number
  readonly sinceLastMs: number | null
  readonly request: PoolRequest | null
}

const LOOK = statement('look_at_pool', 'select sluice.look_at_pool_v1($1, $2) as look')

/** `undefined`: there is no such pool. */
export async function lookAtPool(
  db: Queryable,
  pool: string,
  momentMs: number,
): Promise<PoolLook | undefined> {
  return (await db.run<{ look: PoolLook | null }>(LOOK, [pool, momentMs]))[0]?.look ?? undefined
}
