import { type Queryable, statement } from '../db/database.ts'

const DRAIN = statement(
  'drain_worker',
  `update sluice.workers set draining = $2 where name = $1 and ended_at is null returning id, pg_notify('sluice', 'workers')`,
)

/** Tells every live worker of that name to take nothing new, or to take work again. Answers how many there are. */
export async function drainWorker(db: Queryable, name: string, draining: boolean): Promise<number> {
  return (await db.run(DRAIN, [name, draining])).length
}
