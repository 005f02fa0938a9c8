import { boundsProblem, POOL_FIELDS, type PoolChange } from '../model/pool.ts'
import { type CheckedFields, object, record, type Shape, value, type WrittenFields } from './shape.ts'

const POOL = {
  /** Who starts workers for it. */
  provisioner: value(POOL_FIELDS.provisioner),
  /** What the provisioner has to know. */
  options: value(POOL_FIELDS.options),
  /** What workers started for it offer to tasks with `requires`. */
  labels: value(POOL_FIELDS.labels),
  /** Workers that stay, whatever there is to do. */
  min: value(POOL_FIELDS.min),
  /** Workers at once, at most. */
  max: value(POOL_FIELDS.max),
  /** Jobs at once of each worker started for it; 0 for no limit of its own. */
  capacity: value(POOL_FIELDS.capacity),
  /** A worker without a job for so long leaves; `none`: it stays. */
  idle: value(POOL_FIELDS.idle),
  /** A worker leaves after so long, once what it runs has ended; `none`: it stays. */
  lifetime: value(POOL_FIELDS.lifetime),
  /** Between two requests for workers. */
  cooldown: value(POOL_FIELDS.cooldown),
  /** By then a worker that was asked for has come. */
  arrival: value(POOL_FIELDS.arrival),
} as const

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
