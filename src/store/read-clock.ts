import { type Queryable, statement } from '../db/database.ts'

const READ = statement('read_clock', 'select clock_timestamp() as now')

/** What time it is for the database, which decides. */
export async function readClock(db: Queryable): Promise<Date> {
  return (await db.run<{ now: Date }>(READ))[0]!.now
}
