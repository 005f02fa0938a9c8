import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { checkOptions, checkText, invalidArgument } from '../../model/argument.ts'
import { isName } from '../../model/limits.ts'
import { POOL_COLUMNS, POOL_FIELDS, type PoolChange, type PoolSource } from '../../model/pool.ts'
import type { Reader } from '../../model/setting-value.ts'
import { changePool } from '../../store/change-pool.ts'
import { listPools, type Pool } from '../../store/list-pools.ts'
import { resetPool } from '../../store/reset-pool.ts'

/** What operators change of a pool. Who starts its workers, and how, is for the config of those who start them. */
export type PoolNumbers = Omit<PoolSource, 'provisioner' | 'options' | 'labels'>

const NUMBERS = Object.keys(POOL_FIELDS).filter(
  (name) => !['provisioner', 'options', 'labels'].includes(name),
)

/**
 * An operator's change to a pool. It holds for every decision from then on; nobody is stopped or started by it at once.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` naming the field; `POOL_NOT_FOUND`.
 */
export async function setPool(db: Queryable, name: string, change: PoolNumbers, by: string): Promise<Pool> {
  const checked = checkChange(change)
  if (!(await changePool(db, name, checked, by, true))) throw await unknownPool(db, name)
  return getPool(db, name)
}

/** Undoes operators' changes to a pool: it is again as files and programs last said. @throws {SluiceError} `POOL_NOT_FOUND`. */
export async function forgetPoolChanges(db: Queryable, name: string, by: string): Promise<Pool> {
  if (!isName(checkText(name, 'pool')) || !(await resetPool(db, name, by))) throw await unknownPool(db, name)
  return getPool(db, name)
}

/** @throws {SluiceError} `POOL_NOT_FOUND`. */
export async function getPool(db: Queryable, name: string): Promise<Pool> {
  const pool = (await listPools(db)).find((each) => each.name === name)
  if (pool === undefined) throw await unknownPool(db, name)
  return pool
}

/** What operators change of a pool, as it is. @throws {SluiceError} `POOL_NOT_FOUND`. */
export async function getPoolNumbers(db: Queryable, name: string): Promise<object> {
  const { min, max, capacity, idleMs, lifetimeMs, cooldownMs, arrivalMs } = await getPool(db, name)
  return { min, max, capacity, idleMs, lifetimeMs, cooldownMs, arrivalMs }
}

function checkChange(change: PoolNumbers): PoolChange {
  checkOptions(change, NUMBERS, 'change')
  const read: Record<string, unknown> = {}
  for (const [field, value] of Object.entries(change) as [keyof typeof POOL_FIELDS, unknown][]) {
    if (value === undefined) continue
    const reader: Reader<unknown, unknown> = POOL_FIELDS[field]
    const stored = reader.read(value)
    if (stored === undefined) throw invalidArgument(field, value, reader.expected)
    read[POOL_COLUMNS[field]] = stored
  }
  return read
}

async function unknownPool(db: Queryable, name: string): Promise<SluiceError> {
  const names = (await listPools(db)).map((each) => each.name).join(', ') || 'none'
  return new SluiceError('POOL_NOT_FOUND', `there is no pool ${JSON.stringify(name)}; there are ${names}`, {
    details: { name },
  })
}
