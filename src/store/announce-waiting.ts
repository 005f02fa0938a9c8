import { type Queryable, statement } from '../db/database.ts'

const ANNOUNCE = statement(
  'announce_waiting',
  `insert into sluice.waiters (process, until) values ($1, clock_timestamp() + make_interval(secs => $2 / 1000.0))
   on conflict (process) do update set until = excluded.until`,
)

/** Tells finishing workers, for a while, that this process waits for results and wants to be told. */
export async function announceWaiting(db: Queryable, process: string, forMs: number): Promise<void> {
  await db.run(ANNOUNCE, [process, forMs])
}
