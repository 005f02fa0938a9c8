import { type Queryable, statement } from '../db/database.ts'

const RECOVERIES = statement(
  'prune_recoveries',
  `delete from sluice.recoveries
    where at < statement_timestamp() - (select make_interval(secs => value / 1000.0) from sluice.settings where name = 'retention_ms')
       or id <= (select max(r.id) from sluice.recoveries r) - 10000`,
)
const TALLIES = statement(
  'prune_tallies',
  `delete from sluice.tallies where minute < statement_timestamp() - interval '2 hours'`,
)

/** Deletes what was put right longer ago than the retention, all but the newest 10,000, and tallies of two hours ago. */
export async function prunePast(db: Queryable): Promise<void> {
  await db.run(RECOVERIES)
  await db.run(TALLIES)
}
