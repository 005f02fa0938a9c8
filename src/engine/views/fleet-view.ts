import type { Queryable } from '../../db/database.ts'
import { checkWhole } from '../../model/argument.ts'
import type { PoolSettings } from '../../model/fields/pool.ts'
import {
  type FleetDecisionView,
  listFleetDecisions,
  listFleetStates,
  type PoolState,
} from '../../store/list-fleet.ts'
import { listPools } from '../../store/list-pools.ts'
import { getPool } from '../operate/pool-control.ts'

/** A pool as operators look at it. What its provisioner has to know is left out: it may name doors. */
export interface PoolView extends Omit<PoolSettings, 'options'>, Omit<PoolState, 'pool'> {
  readonly name: string
  /** Workers of it that live and take jobs. */
  readonly workers: number
  /** Workers of it that live and take nothing new. */
  readonly draining: number
  /** Jobs that they run. */
  readonly running: number
  readonly operatorSet: readonly string[]
}

export interface FleetView {
  readonly pools: readonly PoolView[]
  /** Newest first. */
  readonly decisions: readonly FleetDecisionView[]
}

export interface FleetFilter {
  /** Only this pool. */
  readonly pool?: string | undefined
  /** Decisions at most; 20 by default, 1000 at most. */
  readonly limit?: number | undefined
}

const NOTHING_YET = {
  overflow: 0,
  lanes: [],
  since: null,
  overflows: 0,
  requests: 0,
  failed: 0,
  arrived: 0,
  returned: 0,
}

/** Pools with what overflows, and what was decided about it. @throws {SluiceError} `POOL_NOT_FOUND`; `INVALID_ARGUMENT`. */
export async function viewFleet(db: Queryable, filter: FleetFilter = {}): Promise<FleetView> {
  const limit = checkWhole(filter.limit ?? 20, 'limit', 1, 1000)
  const pools = filter.pool === undefined ? await listPools(db) : [await getPool(db, filter.pool)]
  const states = new Map((await listFleetStates(db)).map((state) => [state.pool, state]))
  const decisions = await listFleetDecisions(db, { pool: filter.pool, limit })
  return {
    pools: pools.map(({ options: _, updatedAt: __, updatedBy: ___, ...pool }) => {
      const { pool: ____, ...state } = { pool: '', ...NOTHING_YET, ...states.get(pool.name) }
      return { ...pool, ...state }
    }),
    decisions,
  }
}
