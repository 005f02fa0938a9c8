import { type Queryable, statement } from '../db/database.ts'

const PRUNE = statement(
  'prune_firings',
  `delete from sluice.firings f where f.id = any (array(
     select g.id from sluice.firings g
      where g.fired_at < statement_timestamp() - (select make_interval(secs => value / 1000.0) from sluice.settings where name = 'retention_ms')
        and g.id < (select max(h.id) from sluice.firings h where h.schedule = g.schedule)
      order by g.fired_at limit $1))
   returning 1`,
)

/** Deletes what is older than the retention, at most `limit`; of each schedule the latest firing stays. Tells how many. */
export async function pruneFirings(db: Queryable, limit: number): Promise<number> {
  return (await db.run(PRUNE, [limit])).length
}
