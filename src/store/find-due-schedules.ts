import { type Queryable, statement } from '../db/database.ts'
import type { Schedule } from '../model/schedule.ts'

export interface DueSchedule extends Pick<Schedule, 'cron' | 'timezone' | 'enabled' | 'catchUp'> {
  readonly name: string
  readonly version: number
  readonly nextAt: Date
  readonly now: Date
}

const FIND = statement(
  'find_due_schedules',
  `select s.name, s.version, s.cron, s.timezone, s.enabled, s.catch_up as "catchUp", s.next_at as "nextAt",
          coalesce($2::timestamptz, statement_timestamp()) as now
     from sluice.schedules s
    where s.next_at <= coalesce($2::timestamptz, statement_timestamp())
    order by s.next_at >= coalesce($2::timestamptz, statement_timestamp()) - interval '1 minute' desc, s.next_at, s.name limit $1`,
)

/**
 * Schedules with a tick that is due, oldest first. Those that are overdue by more than a minute come last: they may be so because they
 * cannot be fired.
 *
 * @param now The database's clock unless given.
 */
export async function findDueSchedules(db: Queryable, limit: number, now?: Date): Promise<DueSchedule[]> {
  return db.run<DueSchedule & Record<string, unknown>>(FIND, [limit, now ?? null])
}
