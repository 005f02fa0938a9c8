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
  `select d.name, d.version, d.cron, d.timezone, d.enabled, d.catch_up as "catchUp", d.next_at as "nextAt", d.now
     from (select s.*, i.now, i.now - interval '1 minute' > s.next_at as overdue,
                  row_number() over (partition by s.owner order by i.now - interval '1 minute' > s.next_at, s.next_at, s.name) as turn
             from sluice.schedules s, (select coalesce($2::timestamptz, statement_timestamp()) as now) i
            where s.next_at <= coalesce($2::timestamptz, statement_timestamp())) d
    order by case when d.overdue then greatest(d.turn, 10) else d.turn end, d.next_at, d.name limit $1`,
)

/**
 * Schedules with a tick that is due. Owners take turns, each with its oldest first, so that nobody waits behind the thousand schedules of
 * somebody else. Those that are overdue by more than a minute come last of their owner, and after ten of each other one: they may be so because they
 * cannot be fired.
 *
 * @param now The database's clock unless given.
 */
export async function findDueSchedules(db: Queryable, limit: number, now?: Date): Promise<DueSchedule[]> {
  return db.run<DueSchedule & Record<string, unknown>>(FIND, [limit, now ?? null])
}
