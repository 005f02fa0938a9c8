import { type Queryable, statement } from '../db/database.ts'

// No kept job has waited before the oldest one was submitted. A job that waits for a year must not keep all of a year:
// beyond a day, 10,000 runs of samples are kept per class.
const SAMPLES = statement(
  'prune_samples',
  `delete from sluice.samples s
    where s.at < statement_timestamp() - interval '1 hour'
      and (s.obstacle is null or s.at < coalesce((select j.submitted_at from sluice.jobs j order by j.id limit 1), 'infinity'))`,
)
const MOST_SAMPLES = statement(
  'prune_most_samples',
  `delete from sluice.samples s
    using (select c.id, x.at from sluice.classes c
            cross join lateral (select y.at from sluice.samples y where y.class_id = c.id order by y.at desc offset 10000 limit 1) x) most
    where s.class_id = most.id and s.at <= most.at and s.at < statement_timestamp() - interval '1 day'`,
)
const WORKERS = statement(
  'prune_workers',
  `delete from sluice.workers w
    where w.ended_at < statement_timestamp() - (select make_interval(secs => value / 1000.0) from sluice.settings where name = 'retention_ms')
      and not exists (select 1 from sluice.holdings h where h.worker_id = w.id)`,
)
// As long as a worker lives that came for it, it tells which instance is not to be stopped.
const DECISIONS = statement(
  'prune_fleet_decisions',
  `delete from sluice.fleet_decisions d
    where d.ended_at < statement_timestamp() - (select make_interval(secs => value / 1000.0) from sluice.settings where name = 'retention_ms')
      and not exists (select 1 from sluice.workers w where split_part(w.request, '.', 1) = d.token and w.ended_at is null)`,
)
const RESUBMISSIONS = statement(
  'prune_resubmissions',
  // Not by `not exists`: the view would be read with all its joins, so with all claims for each of these jobs.
  'delete from sluice.resubmissions r where (select j.id from sluice.jobs j where j.id = r.job_id) is null',
)
const WAITERS = statement(
  'prune_waiters',
  `delete from sluice.waiters where until < statement_timestamp() - interval '1 hour'`,
)

/** Deletes old samples, ended workers, decisions of pools, links of deleted jobs, and processes that waited for results once. */
export async function pruneLeftovers(db: Queryable): Promise<void> {
  await db.run(SAMPLES)
  await db.run(MOST_SAMPLES)
  await db.run(WORKERS)
  await db.run(DECISIONS)
  await db.run(RESUBMISSIONS)
  await db.run(WAITERS)
}
