import { type Queryable, statement } from '../db/database.ts'
import type { PoolChange } from '../model/pool.ts'

const CHANGE = statement('change_pool', 'select sluice.change_pool_v1($1, $2, $3, $4) as changed')

/**
 * Changes a pool; files and programs also make it. An operator's change stays until it is reset. False when an operator
 * names one that does not exist.
 */
export async function changePool(
  db: Queryable,
  name: string,
  change: PoolChange,
  by: string,
  operator: boolean,
): Promise<boolean> {
  return (await db.run<{ changed: boolean }>(CHANGE, [name, JSON.stringify(change), by, operator]))[0]!
    .changed
}
