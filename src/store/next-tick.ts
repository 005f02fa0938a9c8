import { type Queryable, statement } from '../db/database.ts'

const NEXT = statement(
  'next_tick',
  `select extract(epoch from min(s.next_at) - clock_timestamp())::float8 * 1000 as ms from sluice.schedules s`,
)

/** How long until the next tick of any schedule, in milliseconds; `null` when there is none. */
export async function nextTickInMs(db: Queryable): Promise<number | null> {
  return (await db.run<{ ms: number | null }>(NEXT))[0]!.ms
}
