import {
  MAX_MODEL,
  MAX_PARALLEL,
  MAX_SMALL_COUNT,
  MAX_STORED_MS,
  MAX_TIMER_MS,
  PRIORITY_RANGE,
} from './limits.ts'
import { choice, count, duration, flag, orNone } from './setting-value.ts'

/**
 * How long a job may wait to start. null means forever. If left out, the task's, the settings' or the database's value
 * applies.
 */
export const DEADLINE = orNone(duration({ min: 1, max: MAX_STORED_MS }))

/** The stored form: 0 means none, so that null can mean not given. */
export function storedDeadline(ms: number | null | undefined): number | undefined {
  return ms === null ? 0 : ms
}

/** The retry fields of a task, in code, in the config file and at workflow steps. */
export const RETRY_FIELDS = {
  attempts: count({ min: 1, max: MAX_SMALL_COUNT }),
  backoff: choice('exponential', 'fixed'),
  delay: duration({ min: 0, max: MAX_STORED_MS }),
  maxDelay: duration({ min: 0, max: MAX_STORED_MS }),
} as const

/** The other fields of a task. Their bounds match the tables in the database and Node's timers. */
export const TASK_FIELDS = {
  priority: count(PRIORITY_RANGE),
  timeout: duration({ min: 1, max: MAX_TIMER_MS }),
  deadline: DEADLINE,
  onLost: choice('retry', 'fail'),
  losses: count({ min: 0, max: MAX_SMALL_COUNT }),
  approval: flag,
  keys: choice('shared', 'owner'),
  laneFixed: flag,
  parallel: count({ min: 1, max: MAX_PARALLEL }),
} as const

/** The rule for model names, such as `llama3.1:8b` and `org/name`. */
export const MODEL_RULE = `the name of a model: text of 1 to ${MAX_MODEL} characters without control characters`

const MODEL_NAME = new RegExp(`^[^\\p{Cc}\\p{Cs}]{1,${MAX_MODEL}}$`, 'u')

export function isModelName(value: unknown): value is string {
  return typeof value === 'string' && MODEL_NAME.test(value)
}
