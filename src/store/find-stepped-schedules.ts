import { type Queryable, statement } from '../db/database.ts'

/** A schedule whose next tick has not been compared with the clock since that stepped back. */
export interface SteppedSchedule {
  readonly name: string
  readonly version: number
  readonly cron: string
  readonly timezone: string
  readonly nextAt: Date | null
  readonly now: Date
  readonly clockSteps: number
}

const FIND = statement(
  'find_stepped_schedules',
  `select s.name, s.version, s.cron, s.timezone, s.next_at as "nextAt", statement_timestamp() as now, k.clock_steps as "clockSteps"
     from sluice.watch k join sluice.schedules s on s.clock_steps < k.clock_steps where k.clock_steps > 0 order by s.name limit $1`,
)

export function findSteppedSchedules(db: Queryable, limit: number): Promise<SteppedSchedule[]> {
  return db.run<SteppedSchedule & Record<string, unknown>>(FIND, [limit])
}
