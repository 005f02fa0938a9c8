import { type Queryable, statement } from '../db/database.ts'

const NEXT = statement(
  'next_tick',
  `select extract(epoch from min(s.next_at) - clock_timestamp())::float8 * 1000 as ms
     from sluice.schedules s where s.next_at > statement_timestamp() - interval '1 second'`,
)

/**
 * How long until the next tick of any schedule, in milliseconds; `null` when there is none. One that is overdue by more
 * than a second could not be fired: whoever hurried would try it again and again.
 */
export async function nextTickInMs(db: Queryable): Promise<number | null> {
  return (await db.run<{ ms: number | null }>(NEXT))[0]!.ms
}
