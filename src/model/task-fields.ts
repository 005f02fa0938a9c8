import { choice, count, duration, flag, MAX_STORED_MS, MAX_TIMER_MS, orNone } from './setting-value.ts'

/** How long a job may wait for its start; null: for ever. What is left out leaves it to the task, the settings, the database. */
export const DEADLINE = orNone(duration({ min: 1, max: MAX_STORED_MS }))

/** The same as it is stored: 0 is none, so that null can mean that nothing was said. */
export function storedDeadline(ms: number | null | undefined): number | undefined {
  return ms === null ? 0 : ms
}

/** How a task is tried again, wherever that is written: in code, in the config file, at a step of a workflow. */
export const RETRY_FIELDS = {
  attempts: count({ min: 1, max: 32_767 }),
  backoff: choice('exponential', 'fixed'),
  delay: duration({ min: 0, max: MAX_STORED_MS }),
  maxDelay: duration({ min: 0, max: MAX_STORED_MS }),
} as const

/** The other fields of a task. The bounds are those of the tables in the database, and of Node's timers. */
export const TASK_FIELDS = {
  priority: count({ min: -1_000_000, max: 1_000_000 }),
  timeout: duration({ min: 1, max: MAX_TIMER_MS }),
  deadline: DEADLINE,
  onLost: choice('retry', 'fail'),
  losses: count({ min: 0, max: 32_767 }),
  approval: flag,
  keys: choice('shared', 'owner'),
  laneFixed: flag,
  parallel: count({ min: 1, max: 10_000 }),
} as const

/** What a model is called: `llama3.1:8b`, `org/name`. */
export const MODEL_RULE = 'the name of a model: text of 1 to 200 characters without control characters'

export function isModelName(value: unknown): value is string {
  return typeof value === 'string' && /^[^\p{Cc}\p{Cs}]{1,200}$/u.test(value)
}
