import { type Queryable, statement } from '../db/database.ts'

const PRUNE = statement(
  'prune_history',
  `with cutoff as materialized (
     select clock_timestamp() - make_interval(secs => value / 1000.0) as at from sluice.settings where name = 'retention_ms'
   ), old as materialized (
     select id from sluice.jobs
      where finished_at < (select at from cutoff) and state >= 'completed' order by id limit $1 for update skip locked
   )
   delete from sluice.jobs j using old where j.id = old.id returning j.id`,
)
const PRUNE_SAMPLES = statement(
  'prune_samples',
  `delete from sluice.samples s using sluice.settings r
    where r.name = 'retention_ms' and s.at < clock_timestamp() - least(make_interval(secs => r.value / 1000.0), interval '1 day')`,
)
const PRUNE_WORKERS = statement(
  'prune_workers',
  `delete from sluice.workers w using sluice.settings r
    where r.name = 'retention_ms' and w.ended_at < clock_timestamp() - make_interval(secs => r.value / 1000.0)
      and not exists (select 1 from sluice.holdings h where h.worker_id = w.id)`,
)
const PRUNE_WAITERS = statement(
  'prune_waiters',
  `delete from sluice.waiters where until < clock_timestamp() - interval '1 hour'`,
)

/** Deletes finished jobs older than the retention, at most `limit`, and what refers to nothing any more. Answers how many jobs. */
export async function pruneHistory(db: Queryable, limit: number): Promise<number> {
  const jobs = await db.run(PRUNE, [limit])
  await db.run(PRUNE_SAMPLES)
  await db.run(PRUNE_WORKERS)
  await db.run(PRUNE_WAITERS)
  return jobs.length
}
