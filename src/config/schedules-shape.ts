import { cronProblem } from '../model/cron.ts'
import {
  SCHEDULE_FIELDS,
  type ScheduleFields,
  type ScheduleOptions,
  scheduleProblem,
} from '../model/schedule.ts'
import { describe } from '../model/setting-value.ts'
import { object, record, type Shape, value } from './shape.ts'

/** The reader knows that it is wrong; this says why. */
const cron: Shape<string, string> = {
  ...value(SCHEDULE_FIELDS.cron),
  check(found, at) {
    const problem = cronProblem(found)
    return problem === undefined ? (found as string) : at.report(`found ${describe(found)}, which ${problem}`)
  },
}

const FIELDS = {
  task: value(SCHEDULE_FIELDS.task),
  workflow: value(SCHEDULE_FIELDS.workflow),
  cron,
  timezone: value(SCHEDULE_FIELDS.timezone),
  input: value(SCHEDULE_FIELDS.input),
  key: value(SCHEDULE_FIELDS.key),
  priority: value(SCHEDULE_FIELDS.priority),
  lane: value(SCHEDULE_FIELDS.lane),
  tags: value(SCHEDULE_FIELDS.tags),
  deadline: value(SCHEDULE_FIELDS.deadline),
  enabled: value(SCHEDULE_FIELDS.enabled),
  overlap: value(SCHEDULE_FIELDS.overlap),
  catchUp: value(SCHEDULE_FIELDS.catchUp),
} as const satisfies Record<keyof typeof SCHEDULE_FIELDS, unknown>

const fields = object(FIELDS)

const schedule: Shape<ScheduleOptions, ScheduleFields> = {
  keys: fields.keys,
  check(found, at) {
    const checked = fields.check(found, at)
    if (checked === undefined) return undefined
    // A field that was reported is there, though it is not among what could be read.
    const given = (found ?? {}) as Readonly<Record<string, unknown>>
    const present = Object.fromEntries(
      Object.keys(FIELDS).flatMap((key) => (given[key] === undefined ? [] : [[key, given[key]]])),
    )
    const problem = scheduleProblem(present)
    return problem === undefined ? checked : at.report(problem, 'key')
  },
}

/** Schedules by name. Whether what they run exists is not looked at here: a program may bring more than the file names. */
export const schedules = record(schedule)
