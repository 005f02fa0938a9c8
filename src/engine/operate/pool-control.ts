import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { checkText } from '../../model/argument.ts'
import { pickStored, type WrittenFields } from '../../model/fields/field.ts'
import { POOL_NUMBERS } from '../../model/fields/pool.ts'
import { readChange } from '../../model/fields/read-change.ts'
import { isName } from '../../model/limits.ts'
import type { PoolChange } from '../../model/pool.ts'
import { changePool } from '../../store/change-pool.ts'
import { deletePool } from '../../store/delete-pool.ts'
import { listPools, type Pool } from '../../store/list-pools.ts'
import { resetPool } from '../../store/reset-pool.ts'

/** What operators change of a pool. */
export interface PoolNumbers extends WrittenFields<typeof POOL_NUMBERS> {}

/**
 * An operator's change to a pool. It holds for every decision from then on; nobody is stopped or started by it at once.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` naming the field; `POOL_NOT_FOUND`.
 */
export async function setPool(db: Queryable, name: string, change: PoolNumbers, by: string): Promise<Pool> {
  const checked: PoolChange = readChange(POOL_NUMBERS, change)
  if (!(await changePool(db, name, checked, by, true))) throw await unknownPool(db, name)
  return getPool(db, name)
}

/** Undoes operators' changes to a pool: it is again as files and programs last said. @throws {SluiceError} `POOL_NOT_FOUND`. */
export async function forgetPoolChanges(db: Queryable, name: string, by: string): Promise<Pool> {
  if (!isName(checkText(name, 'pool')) || !(await resetPool(db, name, by))) throw await unknownPool(db, name)
  return getPool(db, name)
}

/**
 * Deletes a pool that has left the file, with its decisions. One that a file still names is there again when that is next applied.
 *
 * @throws {SluiceError} `POOL_NOT_FOUND`; `POOL_IN_USE` while it has workers or waits for some.
 */
export async function removePool(db: Queryable, name: string): Promise<void> {
  if (!isName(checkText(name, 'pool'))) throw await unknownPool(db, name)
  const { found, workers, requests } = await deletePool(db, name)
  if (!found) throw await unknownPool(db, name)
  if (workers === 0 && requests === 0) return
  const used =
    workers > 0
      ? `it has ${workers} live ${workers === 1 ? 'worker' : 'workers'}`
      : 'workers that it requested may still come, or have to be stopped'
  throw new SluiceError(
    'POOL_IN_USE',
    `pool ${name} cannot be deleted: ${used}. Let it start none with: sluice pools set ${name} --max 0`,
    { details: { name, workers, requests } },
  )
}

/** @throws {SluiceError} `POOL_NOT_FOUND`. */
export async function getPool(db: Queryable, name: string): Promise<Pool> {
  const pool = (await listPools(db)).find((each) => each.name === name)
  if (pool === undefined) throw await unknownPool(db, name)
  return pool
}

/** What operators change of a pool, as it is. @throws {SluiceError} `POOL_NOT_FOUND`. */
export async function getPoolNumbers(db: Queryable, name: string): Promise<object> {
  return pickStored(POOL_NUMBERS, await getPool(db, name))
}

async function unknownPool(db: Queryable, name: string): Promise<SluiceError> {
  const names = (await listPools(db)).map((each) => each.name).join(', ') || 'none'
  return new SluiceError(
    'POOL_NOT_FOUND',
    `pool ${JSON.stringify(name)} does not exist; existing pools: ${names}`,
    {
      details: { name },
    },
  )
}
