import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { checkOptions, checkText, checkWhole, invalidArgument } from '../../model/argument.ts'
import { Ticks } from '../../model/cron.ts'
import { SCHEDULE_FIELDS } from '../../model/fields/schedule.ts'
import { isName, NAME_RULE } from '../../model/limits.ts'
import {
  combineSchedule,
  completeSchedule,
  readScheduleField,
  type Schedule,
  type ScheduleFields,
  type ScheduleOptions,
  scheduleProblem,
} from '../../model/schedule.ts'
import { suggest } from '../../model/suggest.ts'
import { deleteSchedule } from '../../store/delete-schedule.ts'
import { fireScheduleNow } from '../../store/fire-schedule-now.ts'
import { knownNames } from '../../store/known-names.ts'
import { type LatestFiring, latestFirings } from '../../store/latest-firings.ts'
import { type Firing, listFirings } from '../../store/list-firings.ts'
import { listSchedules, type SchedulePage, type ScheduleRow } from '../../store/list-schedules.ts'
import { readClock } from '../../store/read-clock.ts'
import { readSettings } from '../../store/read-settings.ts'
import { saveSchedules } from '../../store/save-schedules.ts'

/** A schedule with its effective values. */
export interface ScheduleView extends Schedule {
  readonly name: string
  /** Its next tick; while it is disabled, the next one that goes by. */
  readonly nextAt: Date | null
  readonly last: Omit<LatestFiring, 'schedule'> | null
  /** True if files or programs declare it. */
  readonly declared: boolean
  /** Fields that an operator set, which override files and programs. */
  readonly operatorSet: readonly string[]
  /** Who its jobs belong to. */
  readonly owner: string
  readonly createdAt: Date
  readonly updatedAt: Date
  readonly updatedBy: string
}

/** What the audit says of a schedule. Not its input, which may hold secrets, nor its tags. */
export function scheduleFacts(schedule: ScheduleView) {
  const { task, workflow, cron, timezone, key, priority, lane, enabled, overlap, catchUp } = schedule
  return { task, workflow, cron, timezone, key, priority, lane, enabled, overlap, catchUp }
}

/** Concurrent changes cause retries. More than this many are not a coincidence. */
export const TRIES = 20

/** How far apart the ticks of a schedule must be of somebody who does not manage workers, in milliseconds. */
export async function smallestInterval(db: Queryable): Promise<number> {
  return (await readSettings(db)).scheduleIntervalMs
}

/** Schedules by name: all of them, or a part. */
export async function viewSchedules(db: Queryable, page?: SchedulePage): Promise<ScheduleView[]> {
  const rows = await listSchedules(db, null, page)
  return withLatest(db, rows, page === undefined ? null : rows.map(({ name }) => name))
}

/** The next ticks of a schedule, by the database's clock. Whether it is enabled does not matter. */
export async function nextTicks(
  db: Queryable,
  { cron, timezone }: Pick<Schedule, 'cron' | 'timezone'>,
  count: number,
): Promise<Date[]> {
  const ticks = new Ticks(cron, timezone)
  const now = (await readClock(db)).getTime()
  return ticks.between(now, Number.POSITIVE_INFINITY, count).map((tick) => new Date(tick))
}

/** @throws {SluiceError} `SCHEDULE_NOT_FOUND` */
export async function viewSchedule(db: Queryable, name: string): Promise<ScheduleView> {
  const [view] = await withLatest(db, [await find(db, name)], [name])
  return view!
}

/**
 * Creates a schedule. It is an operator's: what files say of one with this name changes only the fields not given here.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` naming the field; `TASK_NOT_FOUND`; `SCHEDULE_EXISTS`; `TOO_MANY_SCHEDULES`.
 */
export async function createSchedule(
  db: Queryable,
  name: string,
  options: ScheduleOptions,
  by: string,
): Promise<ScheduleView> {
  if (!isName(checkText(name, 'name'))) throw invalidArgument('name', name, NAME_RULE)
  const changed = readSchedule(options, 'schedule')
  const schedule = complete(changed, `schedule ${name}`)
  await checkTarget(db, schedule)
  const nextAt = firstTick(schedule, await readClock(db))
  const stored = await saveSchedules(
    db,
    [{ ...schedule, name, declared: null, changed, nextAt, version: 0 }],
    by,
  )
  if (stored.size === 0) {
    throw new SluiceError('SCHEDULE_EXISTS', `schedule ${name} already exists: change it, or delete it`, {
      details: { name },
    })
  }
  return viewSchedule(db, name)
}

/**
 * An operator's change: it stays, whatever files say, until it is reset. A change of `cron` or `timezone` counts from
 * now on; ticks that are due have gone by.
 *
 * @throws {SluiceError} `SCHEDULE_NOT_FOUND`; `INVALID_ARGUMENT`; `TASK_NOT_FOUND`.
 */
export async function changeSchedule(
  db: Queryable,
  name: string,
  change: ScheduleOptions,
  by: string,
): Promise<ScheduleView> {
  const given = readSchedule(change, 'change')
  if (Object.keys(given).length === 0)
    throw invalidArgument('change', change, `an object with some of ${FIELD_NAMES.join(', ')}`)
  await update(db, name, by, async ({ declared, changed }) => {
    const target = 'task' in given || 'workflow' in given
    const { task, workflow, ...rest } = changed
    const next = { ...(target ? rest : changed), ...given }
    if (target) await checkTarget(db, complete(combineSchedule(declared, next), `schedule ${name}`))
    return next
  })
  return viewSchedule(db, name)
}

/**
 * Forgets operators' changes: the schedule is again as files and programs last said.
 *
 * @throws {SluiceError} `SCHEDULE_NOT_FOUND`; `ILLEGAL_TRANSITION` when none of them speaks of it.
 */
export async function resetSchedule(db: Queryable, name: string, by: string): Promise<ScheduleView> {
  await update(db, name, by, async ({ declared }) => {
    if (declared !== null) return {}
    throw new SluiceError(
      'ILLEGAL_TRANSITION',
      `schedule ${name} is not declared in a file or program, so it cannot be reset`,
      { details: { name } },
    )
  })
  return viewSchedule(db, name)
}

/** Removes a schedule; jobs it has submitted stay. One that a file names comes back when that is next applied. */
export async function removeSchedule(db: Queryable, name: string): Promise<void> {
  if (!isName(checkText(name, 'name')) || !(await deleteSchedule(db, name))) throw await notFound(db, name)
}

/**
 * Submits a schedule's job now, disabled or not and whatever else runs; its ticks come as before.
 *
 * @throws {SluiceError} `SCHEDULE_NOT_FOUND`, and what `submit` throws.
 */
export async function fireNow(
  db: Queryable,
  name: string,
  by: string,
): Promise<{ readonly id: string; readonly attached: boolean }> {
  const fired = isName(checkText(name, 'name')) ? await fireScheduleNow(db, name, by) : undefined
  if (fired === undefined) throw await notFound(db, name)
  return fired
}

/** Which firings to list. */
export interface FiringFilter {
  /** Only those with a smaller id. */
  readonly before?: string
  /** At most so many; 50 unless given. */
  readonly limit?: number
}

/** What became of a schedule's ticks, newest first. */
export async function viewFirings(db: Queryable, name: string, filter: FiringFilter = {}): Promise<Firing[]> {
  checkOptions(filter, ['before', 'limit'], 'filter')
  const { before, limit = 50 } = filter
  if (before !== undefined && !/^[1-9]\d{0,17}$/.test(checkText(before, 'before')))
    throw invalidArgument('before', before, 'the id of a firing, such as "42"')
  await find(db, name)
  return listFirings(db, name, before ?? null, checkWhole(limit, 'limit', 1, 10_000))
}

async function update(
  db: Queryable,
  name: string,
  by: string,
  change: (row: ScheduleRow) => Promise<ScheduleFields>,
): Promise<void> {
  for (let tries = 1; tries <= TRIES; tries++) {
    const row = await find(db, name)
    const changed = await change(row)
    const schedule = complete(combineSchedule(row.declared, changed), `schedule ${name}`)
    const nextAt = firstTick(schedule, await readClock(db))
    const { declared, version } = row
    const stored = await saveSchedules(db, [{ ...schedule, name, declared, changed, nextAt, version }], by)
    if (stored.size > 0) return
  }
  throw crowded(name)
}

/** The first tick after now, which is the database's. */
export function firstTick({ cron, timezone }: Schedule, now: Date): Date | null {
  const tick = new Ticks(cron, timezone).next(now.getTime())
  return tick === undefined ? null : new Date(tick)
}

const FIELD_NAMES = Object.keys(SCHEDULE_FIELDS) as (keyof typeof SCHEDULE_FIELDS)[]

/**
 * Checks the fields of a schedule that were given, each by itself.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` naming the field; `NOT_STORABLE` for the input.
 */
export function readSchedule(options: ScheduleOptions, name: string): ScheduleFields {
  checkOptions(options, FIELD_NAMES, name)
  const read: Record<string, unknown> = {}
  for (const field of FIELD_NAMES) {
    const value = (options as Record<string, unknown>)[field]
    if (value !== undefined) read[field] = readScheduleField(field, value, `${name}.${field}`)
  }
  return read
}

/** @throws {SluiceError} `INVALID_ARGUMENT` */
export function complete(fields: ScheduleFields, what: string): Schedule {
  const problem = scheduleProblem(fields)
  if (problem === undefined) return completeSchedule(fields)
  throw new SluiceError('INVALID_ARGUMENT', `${what} ${problem}`, { details: { argument: what } })
}

async function checkTarget(db: Queryable, { task, workflow }: Schedule): Promise<void> {
  const known = await knownNames(db)
  const name = task ?? workflow!
  const names = task !== null ? known.tasks : known.workflows
  if (names.includes(name)) return
  const kind = task !== null ? 'task' : 'workflow'
  const other = task !== null ? known.workflows : known.tasks
  const near = suggest(name, names)
  const hint = other.includes(name)
    ? `it is a ${task !== null ? 'workflow' : 'task'}`
    : near === undefined
      ? 'start a program that registers it, or add it to the config file'
      : `did you mean ${near}?`
  throw new SluiceError('TASK_NOT_FOUND', `no ${kind} named '${name}': ${hint}`, { details: { name } })
}

async function find(db: Queryable, name: string): Promise<ScheduleRow> {
  const [row] = isName(checkText(name, 'name')) ? await listSchedules(db, [name]) : []
  if (row === undefined) throw await notFound(db, name)
  return row
}

async function notFound(db: Queryable, name: string): Promise<SluiceError> {
  const names = (await listSchedules(db, null)).map((each) => each.name)
  const near = suggest(name, names)
  const hint = near === undefined ? '' : `; did you mean ${near}?`
  return new SluiceError('SCHEDULE_NOT_FOUND', `schedule ${JSON.stringify(name)} does not exist${hint}`, {
    details: { name },
  })
}

export function crowded(name: string): SluiceError {
  return new SluiceError(
    'DATABASE_UNAVAILABLE',
    `schedule ${name} was changed concurrently ${TRIES} times in a row; try again`,
  )
}

async function withLatest(
  db: Queryable,
  rows: readonly ScheduleRow[],
  names: readonly string[] | null,
): Promise<ScheduleView[]> {
  const latest = new Map((await latestFirings(db, names)).map((each) => [each.schedule, each]))
  return rows.map(({ version: _, declared, changed, ...row }) => {
    const { schedule: __, ...last } = latest.get(row.name) ?? { schedule: '' }
    return {
      ...row,
      declared: declared !== null,
      operatorSet: Object.keys(changed).sort(),
      last: 'tickAt' in last ? last : null,
    }
  })
}
