import { type Queryable, statement } from '../db/database.ts'

const PROMOTE = statement('promote_due', 'select promoted, next_at from sluice.promote_v1($1)')

/** Moves jobs whose time has come into the queue, at most `limit`; tells when the next one is due. */
export async function promoteDue(
  db: Queryable,
  limit: number,
): Promise<{ promoted: number; nextAt: Date | null }> {
  const row = (await db.run<{ promoted: number; next_at: Date | null }>(PROMOTE, [limit]))[0]!
  return { promoted: row.promoted, nextAt: row.next_at }
}
