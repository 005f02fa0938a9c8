import { type Queryable, statement } from '../db/database.ts'

const READ = statement('read_cancel_time', 'select cancel_at as at from sluice.jobs where id = $1')

/** When a cancel of the running attempt was asked for; `null`: never, or the job is gone. */
export async function readCancelTime(db: Queryable, id: string): Promise<Date | null> {
  return (await db.run<{ at: Date | null }>(READ, [id]))[0]?.at ?? null
}
