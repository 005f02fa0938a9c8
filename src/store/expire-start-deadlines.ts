import { type Queryable, statement } from '../db/database.ts'

const EXPIRE = statement('expire_start_deadlines', 'select sluice.expire_start_deadlines_v1($1) as expired')

/** Fails jobs that found no capacity in time, at most `limit`. Answers how many. */
export async function expireStartDeadlines(db: Queryable, limit: number): Promise<number> {
  return (await db.run<{ expired: number }>(EXPIRE, [limit]))[0]!.expired
}
