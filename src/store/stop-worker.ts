import { type Queryable, statement } from '../db/database.ts'

const STOP = statement(
  'stop_worker',
  `update sluice.workers set stopping = true, draining = true where (name = $1 or $1 = '*') and labels @> $2 and ended_at is null
   returning id, pg_notify('sluice', 'workers')`,
)

/** Asks every live worker of that name, `*` for any, that has these labels to end. Answers how many there are. */
export async function stopWorker(db: Queryable, name: string, labels: object): Promise<number> {
  return (await db.run(STOP, [name, JSON.stringify(labels)])).length
}
