import { POOL_FIELDS } from '../model/fields/pool.ts'
import { boundsProblem, type PoolChange } from '../model/pool.ts'
import { type CheckedFields, object, record, type Shape, values, type WrittenFields } from './shape.ts'

const POOL = values(POOL_FIELDS)

export interface PoolInput extends WrittenFields<typeof POOL> {}
export interface PoolConfig extends CheckedFields<typeof POOL> {}

const fields = object(POOL)
const pool: Shape<PoolInput | null, PoolConfig> = {
  ...fields,
  check(found, at) {
    const read = fields.check(found, at)
    if (read === undefined) return undefined
    const problem = boundsProblem(read as Pick<PoolChange, 'min' | 'max'>)
    return problem === undefined ? read : at.below(problem.field).report(problem.message)
  },
}

const FLEET = {
  /** Pools of workers by name: how many there may be, who starts them, when they leave. */
  pools: record(pool),
} as const

export interface FleetInput extends WrittenFields<typeof FLEET> {}
export interface FleetConfig extends CheckedFields<typeof FLEET> {}

/** Which workers come and go by themselves. */
export const fleet: Shape<FleetInput | null, FleetConfig> = object(FLEET)
