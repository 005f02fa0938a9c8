import { type Queryable, statement } from '../db/database.ts'

const DRAIN = statement(
  'drain_incarnation',
  `update sluice.workers set draining = true, broken = $2 where id = $1 and ended_at is null
   returning id, pg_notify('sluice', 'workers')`,
)

/** Marks one worker, not all of its name, as taking nothing new, and says why it cannot. False when it has ended. */
export async function drainIncarnation(db: Queryable, workerId: string, broken: string): Promise<boolean> {
  return (await db.run(DRAIN, [workerId, broken])).length === 1
}
