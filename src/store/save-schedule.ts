import { type Queryable, statement } from '../db/database.ts'
import type { Schedule, ScheduleFields } from '../model/schedule.ts'

export interface ScheduleRecord extends Schedule {
  readonly name: string
  readonly declared: ScheduleFields | null
  readonly changed: ScheduleFields
  readonly nextAt: Date | null
}

const INSERT = statement(
  'insert_schedule',
  `insert into sluice.schedules (name, task, workflow, cron, timezone, input, options, enabled, overlap, catch_up, next_at, declared, changed,
                                 owner, updated_by)
   values ($1, $2, $3, $4, $5, $6::text::jsonb, $7::text::jsonb, $8, $9, $10, $11, $12::text::jsonb, $13::text::jsonb, $14, $14)
   on conflict (name) do nothing
   returning version`,
)
const UPDATE = statement(
  'update_schedule',
  `update sluice.schedules
      set task = $2, workflow = $3, cron = $4, timezone = $5, input = $6::text::jsonb, options = $7::text::jsonb, enabled = $8,
          overlap = $9, catch_up = $10, next_at = case when (cron, timezone) = ($4, $5) then next_at else $11 end,
          declared = $12::text::jsonb, changed = $13::text::jsonb, updated_by = $14, updated_at = clock_timestamp(), version = version + 1
    where name = $1 and version = $15
   returning version`,
)

/**
 * Stores a schedule.
 *
 * @param version The one that was seen; 0 when there was none.
 * @returns false when somebody else has stored or changed it since.
 */
export async function saveSchedule(
  db: Queryable,
  record: ScheduleRecord,
  by: string,
  version: number,
): Promise<boolean> {
  const { key, priority, lane, tags, deadlineMs } = record
  const options = {
    ...(key !== null && { key }),
    ...(priority !== null && { priority }),
    ...(lane !== null && { lane }),
    ...(tags.length > 0 && { tags }),
    ...(deadlineMs !== null && { deadlineMs }),
  }
  const values = [
    record.name,
    record.task,
    record.workflow,
    record.cron,
    record.timezone,
    record.input === null ? null : JSON.stringify(record.input),
    JSON.stringify(options),
    record.enabled,
    record.overlap,
    record.catchUp,
    record.nextAt,
    record.declared === null ? null : JSON.stringify(record.declared),
    JSON.stringify(record.changed),
    by,
  ]
  const stored = version === 0 ? await db.run(INSERT, values) : await db.run(UPDATE, [...values, version])
  return stored.length > 0
}
