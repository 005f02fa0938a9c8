import { cronProblem } from '../cron.ts'
import { toStorableJson } from '../json.ts'
import { isName, MAX_KEY, MAX_TAG, MAX_TAGS, NAME_PATTERN, NAME_RULE, PRIORITY_RANGE } from '../limits.ts'
import { choice, count, flag, type JsonType, orNone, type Reader } from '../setting-value.ts'
import { DEADLINE } from '../task-fields.ts'
import { isTimeZone } from '../time-zone.ts'
import { field } from './field.ts'

const NAME = { type: 'string', pattern: NAME_PATTERN.source, 'x-rule': NAME_RULE }

/** The fields of a schedule. Each job that it submits gets `input`, `key`, `priority`, `lane`, `tags` and `deadline`, as in `submit`. */
export const SCHEDULE_FIELDS = {
  /** The task to submit. */
  task: field('task', accepted(isNameText, NAME_RULE, 'the name of a task', NAME), {
    text: 'The task to submit',
  }),
  /** The workflow to submit. */
  workflow: field('workflow', accepted(isNameText, NAME_RULE, 'the name of a workflow', NAME), {
    text: 'The workflow to submit',
  }),
  /** The times: minute, hour, day of month, month, day of week; with six fields, seconds come first. */
  cron: field(
    'cron',
    accepted(
      (value): value is string => cronProblem(value) === undefined,
      'a cron expression of five fields (minute, hour, day, month, day of week), such as "0 3 * * *", or six with seconds in front',
      'five fields, or six with seconds in front',
      { type: 'string', minLength: 1, maxLength: 200, examples: ['0 3 * * *'] },
    ),
    {
      text: 'The times: minute, hour, day of month, month, day of week; with six fields, seconds come first',
      more: 'Also `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.',
    },
  ),
  /** The time zone of cron. */
  timezone: field(
    'timezone',
    accepted(
      (value): value is string => typeof value === 'string' && isTimeZone(value),
      'the name of a time zone, such as Europe/Berlin or UTC',
      'a name of the IANA database',
      { type: 'string', minLength: 1, maxLength: 100, examples: ['Europe/Berlin'] },
    ),
    {
      text: 'The time zone of cron',
      more: 'When clocks change, each time of day still fires once ([clock changes](../guides/schedules.md#clock-changes)).',
      default: 'UTC',
    },
  ),
  /** The input of the jobs. */
  input: field('input', accepted(isStorable, 'a value that JSON can hold', 'any value', { type: [] }), {
    text: 'The input of the jobs',
    more: 'Nothing in it is substituted.',
    defaultText: 'null',
  }),
  /** At most one active job per task and key; if one is active, a firing attaches to it. */
  key: field(
    'key',
    orNone(
      accepted(isText(MAX_KEY), `a text of 1 to ${MAX_KEY} characters`, `1 to ${MAX_KEY} characters`, {
        type: 'string',
        minLength: 1,
        maxLength: MAX_KEY,
      }),
    ),
    {
      text: 'At most one active job per task and key; if one is active, a firing attaches to it',
      default: null,
    },
  ),
  /** The priority of the jobs. */
  priority: field('priority', orNone(count(PRIORITY_RANGE)), {
    text: 'The priority of the jobs',
    defaultText: "the task's",
  }),
  /** The lane of the jobs. */
  lane: field('lane', orNone(accepted(isNameText, NAME_RULE, 'the name of a lane', NAME)), {
    text: 'The lane of the jobs',
    defaultText: "the task's",
  }),
  /** Words to find the jobs by. */
  tags: field(
    'tags',
    accepted(
      (value): value is readonly string[] =>
        Array.isArray(value) && value.length <= MAX_TAGS && value.every(isText(MAX_TAG)),
      `a list of at most ${MAX_TAGS} texts of 1 to ${MAX_TAG} characters`,
      `at most ${MAX_TAGS} texts of 1 to ${MAX_TAG} characters`,
      { type: 'array', maxItems: MAX_TAGS, items: { type: 'string', minLength: 1, maxLength: MAX_TAG } },
    ),
    { text: 'Words to find the jobs by' },
  ),
  /** A job fails if it has not started this long after it could. */
  deadline: field('deadlineMs', DEADLINE, {
    text: 'A job fails if it has not started this long after it could',
    defaultText: "the task's",
  }),
  /** With false, ticks pass without a job. */
  enabled: field('enabled', flag, { text: 'With false, ticks pass without a job', default: true }),
  /** With skip, the schedule submits no job while one of its earlier jobs has not ended. */
  overlap: field('overlap', choice('allow', 'skip'), {
    text: 'With skip, the schedule submits no job while one of its earlier jobs has not ended',
    default: 'allow',
  }),
  /** The most ticks to fire late, the latest first, if no process was running to fire them. */
  catchUp: field('catchUp', count({ min: 0, max: 100 }), {
    text: 'The most ticks to fire late, the latest first, if no process was running to fire them',
    default: 1,
  }),
} as const

/** Creates a reader that accepts a value unchanged or rejects it. */
function accepted<T>(
  fits: (value: unknown) => value is T,
  expected: string,
  bound: string,
  written: JsonType,
): Reader<T, T> {
  const read = (value: unknown) => (fits(value) ? value : undefined)
  return {
    read,
    readText: read,
    expected,
    bound,
    format: (value) => String(value),
    placeholder: 'text',
    written,
    words: [],
    stored: written,
  }
}

function isNameText(value: unknown): value is string {
  return typeof value === 'string' && isName(value)
}

function isText(max: number): (value: unknown) => value is string {
  return (value): value is string =>
    typeof value === 'string' &&
    value.length > 0 &&
    value.length <= max &&
    !value.includes('\0') &&
    !/\p{Surrogate}/u.test(value)
}

function isStorable(value: unknown): value is unknown {
  try {
    toStorableJson(value, 'input')
    return true
  } catch {
    return false
  }
}
