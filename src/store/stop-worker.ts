import { type Queryable, statement } from '../db/database.ts'

const STOP = statement(
  'stop_worker',
  `with named as materialized (
     select w.id from sluice.workers w
      where (w.name = $1 or $1 = '*') and w.labels @> $2 and w.ended_at is null order by w.id for no key update
   )
   update sluice.workers w set stopping = true, draining = true, returnable = false
     from named where w.id = named.id returning w.id, pg_notify('sluice', 'workers')`,
)

/** Asks every live worker of that name, `*` for any, that has these labels to end. Answers how many there are. */
export async function stopWorker(db: Queryable, name: string, labels: object): Promise<number> {
  return (await db.run(STOP, [name, JSON.stringify(labels)])).length
}
