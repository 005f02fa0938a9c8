import { type Queryable, statement } from '../db/database.ts'
import type { SkipReason } from '../model/schedule.ts'

/** How the latest firing of a schedule went. */
export interface LatestFiring {
  readonly schedule: string
  readonly tickAt: Date
  readonly jobId: string | null
  readonly skipped: SkipReason | null
  readonly reason: string | null
}

const LATEST = statement(
  'latest_firings',
  `select s.name as schedule, f.tick_at as "tickAt", f.job_id as "jobId", f.skipped, f.reason
     from sluice.schedules s
    cross join lateral (select * from sluice.firings f where f.schedule = s.name order by f.id desc limit 1) f
    where $1::text[] is null or s.name = any ($1)`,
)

/** The latest firing of each schedule that has one. */
export async function latestFirings(db: Queryable, names: readonly string[] | null): Promise<LatestFiring[]> {
  return db.run<LatestFiring & Record<string, unknown>>(LATEST, [names])
}
