import { type Queryable, statement } from '../db/database.ts'

const DRAIN = statement(
  'drain_worker',
  `update sluice.workers set draining = $2, leaving = case when $2 then leaving end
    where (name = $1 or $1 = '*') and labels @> $3 and ended_at is null returning id, pg_notify('sluice', 'workers')`,
)

/**
 * Tells every live worker of that name, `*` for any, that has these labels to take nothing new, or to take work again. Answers
 * how many there are.
 */
export async function drainWorker(
  db: Queryable,
  name: string,
  labels: object,
  draining: boolean,
): Promise<number> {
  return (await db.run(DRAIN, [name, draining, JSON.stringify(labels)])).length
}
