import { type Queryable, statement } from '../db/database.ts'
import type { Schedule, ScheduleFields } from '../model/schedule.ts'

export interface ScheduleRecord extends Schedule {
  readonly name: string
  readonly declared: ScheduleFields | null
  readonly changed: ScheduleFields
  readonly nextAt: Date | null
  /** The version that was seen; 0 when there was none. */
  readonly version: number
}

const GIVEN = `jsonb_to_recordset($1::text::jsonb) as g(name text, task text, workflow text, cron text, timezone text, input jsonb, options jsonb,
                                                         enabled boolean, overlap text, "catchUp" integer, "nextAt" timestamptz,
                                                         declared jsonb, changed jsonb, version integer)`

// Both take rows in the order of their names, as whoever fires schedules does: two programs that declare the same ones do not wait for each other.
const INSERT = statement(
  'insert_schedules',
  `insert into sluice.schedules (name, task, workflow, cron, timezone, input, options, enabled, overlap, catch_up, next_at, declared, changed,
                                 owner, updated_by, input_by, task_by)
   select g.name, g.task, g.workflow, g.cron, g.timezone, g.input, g.options, g.enabled, g.overlap, g."catchUp", g."nextAt", g.declared, g.changed,
          $2, $2, $2, $2
     from ${GIVEN}
    order by g.name
   on conflict (name) do nothing
   returning name`,
)
const UPDATE = statement(
  'update_schedules',
  `with given as materialized (select * from ${GIVEN}),
        seen as materialized (
          select s.name from sluice.schedules s join given g on g.name = s.name and g.version = s.version order by s.name for no key update of s)
   update sluice.schedules s
      set task = g.task, workflow = g.workflow, cron = g.cron, timezone = g.timezone, input = g.input, options = g.options, enabled = g.enabled,
          overlap = g.overlap, catch_up = g."catchUp",
          next_at = case when (s.cron, s.timezone) = (g.cron, g.timezone) then s.next_at else g."nextAt" end,
          declared = g.declared, changed = g.changed, updated_by = $2, updated_at = clock_timestamp(), version = s.version + 1,
          input_by = case when s.input is not distinct from g.input then s.input_by else $2 end,
          task_by = case when (s.task, s.workflow) is not distinct from (g.task, g.workflow) then s.task_by else $2 end
     from seen join given g on g.name = seen.name
    where s.name = seen.name and s.version = g.version
   returning s.name`,
)

/** Stores schedules, each unless somebody else has stored or changed it since. Returns the names of those that were stored. */
export async function saveSchedules(
  db: Queryable,
  records: readonly ScheduleRecord[],
  by: string,
): Promise<ReadonlySet<string>> {
  const stored = new Set<string>()
  for (const [text, part] of [
    [INSERT, records.filter(({ version }) => version === 0)],
    [UPDATE, records.filter(({ version }) => version > 0)],
  ] as const) {
    if (part.length === 0) continue
    const rows = await db.run<{ name: string }>(text, [JSON.stringify(part.map(toRow)), by])
    for (const { name } of rows) stored.add(name)
  }
  return stored
}

function toRow({ key, priority, lane, tags, deadlineMs, ...rest }: ScheduleRecord) {
  const options = {
    ...(key !== null && { key }),
    ...(priority !== null && { priority }),
    ...(lane !== null && { lane }),
    ...(tags.length > 0 && { tags }),
    ...(deadlineMs !== null && { deadlineMs }),
  }
  return { ...rest, options }
}
