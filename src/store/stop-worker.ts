import { type Queryable, statement } from '../db/database.ts'

const STOP = statement(
  'stop_worker',
  `update sluice.workers set stopping = true, draining = true where name = $1 and ended_at is null
   returning id, pg_notify('sluice', 'workers')`,
)

/** Asks every live worker of that name to end. Answers how many there are. */
export async function stopWorker(db: Queryable, name: string): Promise<number> {
  return (await db.run(STOP, [name])).length
}
