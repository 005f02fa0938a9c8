import { type Queryable, statement } from '../db/database.ts'

const BRING = statement(
  'undrain_workers',
  'select sluice.undrain_workers_v1($1, $2, $3, $4, $5, $6) as returned',
)

/**
 * Tells workers of a pool that are leaving to stay. Answers how many: 0 when somebody else has decided something for the pool
 * meanwhile, or they have gone.
 */
export async function undrainWorkers(
  db: Queryable,
  pool: string,
  seen: string,
  count: number,
  why: { readonly reason: string; readonly overflow: readonly object[]; readonly by: string },
): Promise<number> {
  const values = [pool, seen, count, why.reason, JSON.stringify(why.overflow), why.by]
  return (await db.run<{ returned: number }>(BRING, values))[0]!.returned
}
