import { type Queryable, statement } from '../db/database.ts'

const RESET = statement('reset_pool', 'select sluice.reset_pool_v1($1, $2) as reset')

/** Undoes what operators changed: the pool is again as files and programs last said. False when there is no such pool. */
export async function resetPool(db: Queryable, name: string, by: string): Promise<boolean> {
  return (await db.run<{ reset: boolean }>(RESET, [name, by]))[0]!.reset
}
