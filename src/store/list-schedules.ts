import { type Queryable, statement } from '../db/database.ts'
import type { Schedule, ScheduleFields } from '../model/schedule.ts'

/** A schedule as it is kept. */
export interface ScheduleRow extends Schedule {
  readonly name: string
  readonly nextAt: Date | null
  readonly version: number
  readonly declared: ScheduleFields | null
  readonly changed: ScheduleFields
  readonly owner: string
  readonly createdAt: Date
  readonly updatedAt: Date
  readonly updatedBy: string
}

const LIST = statement(
  'list_schedules',
  `select s.name, s.task, s.workflow, s.cron, s.timezone, s.input, s.options ->> 'key' as key, (s.options ->> 'priority')::integer as priority,
          s.options ->> 'lane' as lane, coalesce(s.options -> 'tags', '[]') as tags, (s.options ->> 'deadlineMs')::float8 as "deadlineMs",
          s.enabled, s.overlap, s.catch_up as "catchUp", s.next_at as "nextAt", s.version, s.declared, s.changed, s.owner,
          s.created_at as "createdAt", s.updated_at as "updatedAt", s.updated_by as "updatedBy"
     from sluice.schedules s
    where $1::text[] is null or s.name = any ($1)
    order by s.name`,
)

/** Schedules by name, or all of them. */
export async function listSchedules(db: Queryable, names: readonly string[] | null): Promise<ScheduleRow[]> {
  return db.run<ScheduleRow & Record<string, unknown>>(LIST, [names])
}
