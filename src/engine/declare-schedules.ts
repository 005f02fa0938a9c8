import type { Queryable } from '../db/database.ts'
import type { JsonValue } from '../model/json.ts'
import { combineSchedule, type ScheduleFields } from '../model/schedule.ts'
import { knownNames } from '../store/known-names.ts'
import { listSchedules, type ScheduleRow } from '../store/list-schedules.ts'
import { saveSchedule } from '../store/save-schedule.ts'
import { canonicalJson } from '../workflow/canonical.ts'
import type { Log } from './log.ts'
import { complete, crowded, firstTick, TRIES } from './schedules.ts'

/**
 * Makes the schedules of files and programs known. What operators have set stays as it is.
 *
 * A schedule may be known before the program that has its task is: it is said in the log, and its firings tell.
 */
export async function declareSchedules(
  db: Queryable,
  schedules: Readonly<Record<string, ScheduleFields>>,
  by: string,
  log: Log,
): Promise<void> {
  const names = Object.keys(schedules).sort()
  if (names.length === 0) return
  for (let tries = 1; names.length > 0; tries++) {
    if (tries > TRIES) throw crowded(names[0]!)
    const rows = new Map((await listSchedules(db, names)).map((row) => [row.name, row]))
    for (const name of [...names]) {
      if (await declare(db, name, schedules[name]!, rows.get(name), by)) names.splice(names.indexOf(name), 1)
    }
  }
  const known = await knownNames(db)
  for (const [name, { task, workflow }] of Object.entries(schedules)) {
    const missing = task !== undefined ? !known.tasks.includes(task) : !known.workflows.includes(workflow!)
    if (missing)
      log.warn({ schedule: name, task, workflow }, 'a schedule runs what no program has made known yet')
  }
}

async function declare(
  db: Queryable,
  name: string,
  declared: ScheduleFields,
  row: ScheduleRow | undefined,
  by: string,
): Promise<boolean> {
  // Every start of every program comes by here: nothing is new, nothing is written.
  if (
    row?.declared != null &&
    canonicalJson(row.declared as JsonValue) === canonicalJson(declared as JsonValue)
  )
    return true
  const changed = row?.changed ?? {}
  const schedule = complete(combineSchedule(declared, changed), `schedules.${name}`)
  const nextAt = await firstTick(db, schedule)
  return saveSchedule(db, { ...schedule, name, declared, changed, nextAt }, by, row?.version ?? 0)
}
