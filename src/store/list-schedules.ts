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
    where ($1::text[] is null or s.name = any ($1)) and ($2::text is null or s.name > $2) and ($3::text is null or s.owner = $3)
    order by s.name limit $4`,
)

/** A part of all schedules. */
export interface SchedulePage {
  /** Only those that come after this name. */
  readonly after?: string | undefined
  /** Only those of this one. */
  readonly owner?: string | undefined
  readonly limit?: number
}

/** Schedules by name, or all of them. */
export async function listSchedules(
  db: Queryable,
  names: readonly string[] | null,
  { after, owner, limit }: SchedulePage = {},
): Promise<ScheduleRow[]> {
  const values = [names, after ?? null, owner ?? null, limit ?? null]
  return db.run<ScheduleRow & Record<string, unknown>>(LIST, values)
}
