import type { Queryable } from '../../db/database.ts'
import type { JsonValue } from '../../model/json.ts'
import { combineSchedule, type ScheduleFields } from '../../model/schedule.ts'
import { knownNames } from '../../store/known-names.ts'
import { listSchedules, type ScheduleRow } from '../../store/list-schedules.ts'
import { readClock } from '../../store/read-clock.ts'
import { type ScheduleRecord, saveSchedules } from '../../store/save-schedules.ts'
import { canonicalJson } from '../../workflow/canonical.ts'
import type { Log } from '../log.ts'
import { complete, crowded, firstTick, TRIES } from './schedules.ts'

/** Schedules stored in one statement. One at a time, a program with 5,000 of them took 23 s to start. */
const BATCH = 500

/**
 * Stores the schedules of files and programs. Operators' values are kept.
 *
 * A schedule may be stored before the program that has its task: the log reports it, and its firings show it.
 */
export async function declareSchedules(
  db: Queryable,
  schedules: Readonly<Record<string, ScheduleFields>>,
  by: string,
  log: Log,
): Promise<void> {
  const names = Object.keys(schedules).sort()
  for (let at = 0; at < names.length; at += BATCH)
    await declareBatch(db, schedules, names.slice(at, at + BATCH), by)
  if (names.length === 0) return
  const known = await knownNames(db)
  for (const [name, { task, workflow }] of Object.entries(schedules)) {
    const missing = task !== undefined ? !known.tasks.includes(task) : !known.workflows.includes(workflow!)
    if (missing)
      log.warn(
        { schedule: name, task, workflow },
        'a schedule runs a task or workflow that no program has registered',
      )
  }
}

async function declareBatch(
  db: Queryable,
  schedules: Readonly<Record<string, ScheduleFields>>,
  names: readonly string[],
  by: string,
): Promise<void> {
  let left = names
  for (let tries = 1; left.length > 0; tries++) {
    if (tries > TRIES) throw crowded(left[0]!)
    const rows = new Map((await listSchedules(db, left)).map((row) => [row.name, row]))
    // Every start of every program runs this: if nothing is new, nothing is written.
    left = left.filter((name) => !isDeclared(rows.get(name), schedules[name]!))
    if (left.length === 0) return
    const now = await readClock(db)
    const stored = await saveSchedules(
      db,
      left.map((name) => toRecord(name, schedules[name]!, rows.get(name), now)),
      by,
    )
    left = left.filter((name) => !stored.has(name))
  }
}

function isDeclared(row: ScheduleRow | undefined, declared: ScheduleFields): boolean {
  return (
    row?.declared != null && canonicalJson(row.declared as JsonValue) === canonicalJson(declared as JsonValue)
  )
}

function toRecord(
  name: string,
  declared: ScheduleFields,
  row: ScheduleRow | undefined,
  now: Date,
): ScheduleRecord {
  const changed = row?.changed ?? {}
  const schedule = complete(combineSchedule(declared, changed), `schedules.${name}`)
  return {
    ...schedule,
    name,
    declared,
    changed,
    nextAt: firstTick(schedule, now),
    version: row?.version ?? 0,
  }
}
