import { type Queryable, statement } from '../db/database.ts'

export interface Spread {
  readonly changed: number
  /** Something is left to do. */
  readonly more: boolean
}

const SPREAD = statement('spread_priority', 'select changed, more from sluice.spread_priority_v1($1)')

/** Gives some of the jobs below a reprioritised workflow its priority. */
export async function spreadPriority(db: Queryable, limit: number): Promise<Spread> {
  return (await db.run<Spread & Record<string, unknown>>(SPREAD, [limit]))[0]!
}
