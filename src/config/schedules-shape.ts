import { cronProblem } from '../model/cron.ts'
import { SCHEDULE_FIELDS } from '../model/fields/schedule.ts'
import { type ScheduleFields, type ScheduleOptions, scheduleProblem } from '../model/schedule.ts'
import { describe } from '../model/setting-value.ts'
import { object, record, type Shape, value, values } from './shape.ts'

/** The reader knows that it is wrong; this says why. */
const cron: Shape<string, string> = {
  ...value(SCHEDULE_FIELDS.cron),
  check(found, at) {
    const problem = cronProblem(found)
    return problem === undefined ? (found as string) : at.report(`found ${describe(found)}, which ${problem}`)
  },
}

const FIELDS = { ...values(SCHEDULE_FIELDS), cron }

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
