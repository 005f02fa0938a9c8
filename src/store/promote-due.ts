import { type Queryable, statement } from '../db/database.ts'

const PROMOTE = statement('promote_due', 'select promoted, next_in_ms from sluice.promote_due_v1($1)')

export interface Promoted {
  readonly promoted: number
  /** How long until the next one is due; `null` when none is scheduled. */
  readonly nextInMs: number | null
}

/** Moves jobs whose time has come into the queue, at most `limit`. */
export async function promoteDue(db: Queryable, limit: number): Promise<Promoted> {
  const row = (await db.run<{ promoted: number; next_in_ms: number | null }>(PROMOTE, [limit]))[0]!
  return { promoted: row.promoted, nextInMs: row.next_in_ms }
}
