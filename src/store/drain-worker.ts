import { type Queryable, statement } from '../db/database.ts'

const DRAIN = statement(
  'drain_worker',
  `with named as materialized (
     select w.id from sluice.workers w
      where (w.name = $1 or $1 = '*') and w.labels @> $3 and w.ended_at is null order by w.id for no key update
   )
   update sluice.workers w set draining = $2, leaving = case when $2 then w.leaving end, broken = case when $2 then w.broken end, returnable = false
     from named where w.id = named.id returning w.id, pg_notify('sluice', 'workers')`,
)

/**
 * Tells every live worker of that name, `*` for any, that has these labels to take nothing new, or to take work again: one that is broken
 * then tries anew. Answers how many there are.
 */
export async function drainWorker(
  db: Queryable,
  name: string,
  labels: object,
  draining: boolean,
): Promise<number> {
  return (await db.run(DRAIN, [name, draining, JSON.stringify(labels)])).length
}
