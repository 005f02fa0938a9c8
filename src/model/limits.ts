/**
 * The bounds, name patterns, defaults and limits that more than one part of Sluice has to agree on: the config file, the API, the command
 * line, and the database. `test/behaviour/limits.test.ts` compares them with the checks in SQL.
 *
 * Settings, and fields of lanes, pools and the like, have their own bounds and defaults where they are declared.
 */

/** The largest `smallint` and `integer` PostgreSQL stores. */
export const MAX_SMALL_COUNT = 32_767
export const MAX_COUNT = 2_147_483_647
/** Node's timers overflow at 2^31 - 1 ms, which is 24.8 days, and then fire at once. */
export const MAX_TIMER_MS = 24 * 86_400_000
/** For times that only the database compares: 100 years. */
export const MAX_STORED_MS = 36_500 * 86_400_000

/** The names of lanes, tasks, workflows, budgets, pools, schedules and roles. */
export const NAME_PATTERN = /^[A-Za-z_][A-Za-z0-9_.-]{0,99}$/
export const MAX_NAME = 100
export const NAME_RULE =
  'a name of 1 to 100 letters, digits, "_", "-" or ".", starting with a letter or "_", and not __proto__'

export function isName(text: string): boolean {
  return text !== '__proto__' && NAME_PATTERN.test(text)
}

/** Priorities of jobs, tasks and schedules. */
export const PRIORITY_RANGE = { min: -1_000_000, max: 1_000_000 } as const
/** Above it a key needs the permission `jobs:prioritise`. */
export const MAX_COMMON_PRIORITY = 100
/** Ranks of workers, the smallest first. */
export const RANK_RANGE = { min: -1_000_000, max: 1_000_000 } as const

/** Characters of a job's key. */
export const MAX_KEY = 500
/** Tags of a job, and characters of each. */
export const MAX_TAGS = 50
export const MAX_TAG = 100
/** Characters of the name that a job, a key, a model or a worker goes by. */
export const MAX_OWNER = 200
export const MAX_MODEL = 200
export const MAX_WORKER_NAME = 200

/** Characters of the reason that an operator gives for a change, and of one that is kept with a job. */
export const MAX_REASON = 500
export const MAX_JOB_REASON = 2000
/** The audit cuts longer texts: a target can hold a name that a caller chose. */
export const MAX_AUDIT_TEXT = 500
/** Characters of the reason that a worker gives for not running a task, or for stopping. */
export const MAX_WORKER_REASON = 1000
/** Characters of a job's error, of one line of its log, and of the message beside its progress. */
export const MAX_ERROR = 16_384
export const MAX_LOG_LINE = 8192
export const MAX_PROGRESS_MESSAGE = 1000
/** Log lines that one attempt keeps, and their bytes. One more line says that the log is full. */
export const MAX_LOG_LINES = 10_000
export const MAX_LOG_BYTES = 4 * 1024 * 1024

/** Deeper values are refused: parsers on the way, PostgreSQL's included, run out of stack somewhere beyond. */
export const MAX_JSON_DEPTH = 1000

/** Larger texts are refused. */
export const MAX_JSON_BYTES = 16 * 1024 * 1024

/** Losses of a worker after which a job fails, unless its task says otherwise. */
export const DEFAULT_LOSSES = 3
/** Jobs at once on one copy of a model. */
export const MAX_PARALLEL = 10_000
/** How far ahead `retry` and `snooze` put an attempt, at most. */
export const MAX_RETRY_DELAY_MS = 366 * 86_400_000
/** Jobs of one task that a worker asks for beyond its slots in one cycle, and jobs assigned to it beyond its slots in all lanes together. */
export const MAX_PREFETCH = 1000
export const MAX_ASSIGNED = 4000
/** Attempts that one request of a worker may report. */
export const MAX_ATTEMPTS = 20_000

/** Heartbeats after which an answer may be too old to act on, and connections may be dead. One heartbeat may just be slow. */
export const DOUBTFUL_HEARTBEATS = 2

/**
 * What `stale` must be greater than. A worker stops working for a lane after `stale - heartbeat` without a heartbeat that got through, so
 * it has more than one heartbeat to notice before others take its jobs.
 */
export function staleFloorMs(heartbeatMs: number): number {
  return 2 * heartbeatMs
}

/** Failed starts in a row, of attempts or of processes of the pool, after which a worker counts as broken. */
export const FAILED_STARTS_UNTIL_BROKEN = 3

/** A worker looks again this long after a hint that led to nothing: the commit that the hint announced may be a moment behind it. */
export const LOOK_AGAIN_MS: readonly number[] = [2, 4, 8, 16, 32]
/** How soon a worker that holds idle slots checks whether to return them. */
export const RETURN_IDLE_SLOTS_AFTER_MS = 250
/** A cycle that takes longer is given up. Its outcome is then unknown, and the worker resyncs. */
export const CYCLE_TIMEOUT_MS = 15_000
/** Timers may fire this early. */
export const EARLY_TIMER_MS = 2
/** Processes that wait are notified at most this often; they poll too. */
export const HINT_INTERVAL_MS = 20
/** A process that waits for jobs to end announces it for this long, and renews the announcement while it waits. */
export const ANNOUNCEMENT_MS = 10_000

/** Ready jobs are counted exactly up to this number per task. It then means "at least this many". */
export const EXACT_DEPTH = 10_000
/** Numbers and lists of failures consider this many of the newest failures, which bounds the cost of a burst. */
export const COUNTED_FAILURES = 10_000
/** Both limits as shown in interfaces. */
export const DEPTH_WORDS = `exact up to ${withThousands(EXACT_DEPTH)} per task`
export const FAILURES_WORDS = `the newest ${withThousands(COUNTED_FAILURES)}`

function withThousands(number: number): string {
  return number.toLocaleString('en')
}
