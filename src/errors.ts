/**
 * Every error Sluice raises on purpose, with the HTTP status it becomes.
 *
 * Codes are public: programs match on them. Add codes freely; never rename one
 * or give an old one a new meaning. `docs/reference/errors.md` lists each of
 * them (a test checks).
 */
export const ERROR_STATUS = {
  /** A value given by the caller does not have the right shape. */
  INVALID_ARGUMENT: 400,
  /** A configuration file or setting cannot work. */
  INVALID_CONFIG: 400,
  /** The task's schema rejects the input. */
  INVALID_INPUT: 400,
  /** A value cannot be stored as JSON: NUL, lone surrogate, NaN, too deep, too large, a cycle. */
  NOT_STORABLE: 400,
  /** The request carries no valid API key or session. */
  UNAUTHENTICATED: 401,
  /** The caller's role does not permit the action. */
  FORBIDDEN: 403,
  /** The server has no route at this address. */
  ROUTE_NOT_FOUND: 404,
  /** The route exists, but does not support this method. */
  METHOD_NOT_ALLOWED: 405,
  /** The request did not arrive in time. */
  REQUEST_TIMEOUT: 408,
  /** The request body exceeds the server's limit. */
  PAYLOAD_TOO_LARGE: 413,
  /** The request body is not JSON in UTF-8. */
  UNSUPPORTED_MEDIA_TYPE: 415,
  /** No program has registered a task of that name. */
  TASK_NOT_FOUND: 404,
  /** No lane of that name exists. */
  LANE_NOT_FOUND: 404,
  /** No job with that id exists. */
  JOB_NOT_FOUND: 404,
  /** No API key with that id exists. */
  KEY_NOT_FOUND: 404,
  /** No role of that name exists. */
  ROLE_NOT_FOUND: 404,
  /** No schedule of that name exists. */
  SCHEDULE_NOT_FOUND: 404,
  /** No job of that name and key is active or completed. */
  RESULT_NOT_FOUND: 404,
  /** No budget of that name exists. */
  BUDGET_NOT_FOUND: 404,
  /** No worker of that name or id is alive. */
  WORKER_NOT_FOUND: 404,
  /** No pool of that name exists. */
  POOL_NOT_FOUND: 404,
  /** An active job with a different input holds the key. */
  KEY_CONFLICT: 409,
  /** The Idempotency-Key was used for a different request within 24 hours, or its request is in progress. */
  IDEMPOTENCY_CONFLICT: 409,
  /** The route does not support Idempotency-Key. */
  IDEMPOTENCY_UNSUPPORTED: 400,
  /** The job's state does not allow the action. */
  ILLEGAL_TRANSITION: 409,
  /** The request needs a fan-out, and the job is something else. */
  NOT_A_FANOUT: 409,
  /** The job has no window to resize. */
  NO_WINDOW: 409,
  /** The role is built in, its name is taken, or API keys use it. */
  ROLE_CONFLICT: 409,
  /** The change would leave no API key with the permission to manage access. */
  LAST_ADMIN: 409,
  /** A budget cannot be deleted while tasks use it. */
  BUDGET_IN_USE: 409,
  /** A budget of that name already exists. */
  BUDGET_EXISTS: 409,
  /** A pool cannot be deleted while it has workers. */
  POOL_IN_USE: 409,
  /** A lane of that name already exists. */
  LANE_EXISTS: 409,
  /** The task fixes its lane, and the submission names another one. */
  LANE_FIXED: 409,
  /** The task's lane is paused, and the submission names another one. */
  LANE_PAUSED: 409,
  /** A lane in use can only be deleted if its tasks and jobs move to another lane. */
  LANE_IN_USE: 409,
  /** A task and a workflow cannot have the same name. */
  NAME_TAKEN: 409,
  /** A task that needs approval cannot be deleted. */
  TASK_NEEDS_APPROVAL: 409,
  /** A schedule of that name already exists. */
  SCHEDULE_EXISTS: 409,
  /** The owner has reached the limit on schedules. */
  TOO_MANY_SCHEDULES: 409,
  /** The worker that made the write no longer holds the lease. */
  LEASE_LOST: 409,
  /** The pool has reached its maximum, or already has a worker of this name. */
  SURPLUS_WORKER: 409,
  /** A running task tried to await another job's result, which would hold its slot. */
  WOULD_DEADLOCK: 409,
  /** The job ended without success; thrown by `result()`. */
  JOB_FAILED: 422,
  /** The job was cancelled; thrown by `result()`. */
  JOB_CANCELLED: 422,
  /** The job did not end within the timeout of `result()`. The job continues. */
  RESULT_TIMEOUT: 504,
  /** The program or the process that ran a task failed, or left no usable result. */
  ATTEMPT_FAILED: 422,
  /** A workflow's expression is invalid, or fails to evaluate with the given values. */
  EXPRESSION_FAILED: 422,
  /** The attempt has reached the limit on stored steps. */
  STEPS_FULL: 422,
  /** A job needs more of a budget than any device has, so it could never start. */
  BUDGET_EXCEEDED: 422,
  /** The ceiling on active jobs, on jobs of one owner or on waiting jobs of a task is reached. */
  ADMISSION_REJECTED: 429,
  /** An API key has too many open requests or streams at this server. */
  TOO_MANY_REQUESTS: 429,
  /** Too many requests with wrong keys came from this address. */
  TOO_MANY_FAILURES: 429,
  /** The database is unreachable or cannot process the request. */
  DATABASE_UNAVAILABLE: 503,
  /** The Sluice server is unreachable or cannot process the request. */
  SERVER_UNAVAILABLE: 503,
  /** The data folder has no database, and the command does not create one. */
  DATABASE_NOT_FOUND: 404,
  /** This program cannot work with the database's settings or schema. */
  DATABASE_UNSUITABLE: 500,
  /** The embedded PostgreSQL does not support this platform, or failed to start. */
  EMBEDDED_UNAVAILABLE: 500,
  /** The worker cannot start any task: it has no workdir, or its initialiser fails. */
  WORKER_BROKEN: 503,
  /** The worker cannot start this task: its program is missing, or its module fails to load. */
  START_FAILED: 503,
  /** The worker cannot safely run a task's program as the user that the task names. */
  EXEC_USER_UNAVAILABLE: 500,
  /** The provisioner could not start workers: no response, missing permissions, no capacity. */
  PROVISIONER_FAILED: 502,
  /** The process pool has no free process, because a caller did not check `free`. */
  PROCESS_POOL_FULL: 503,
  /** The process, application or worker is being closed. */
  CLOSED: 503,
  /** A bug in Sluice. The server's log has the cause under the request's id. */
  INTERNAL: 500,
} as const satisfies Record<string, number>

export type ErrorCode = keyof typeof ERROR_STATUS

/** Programs of newer versions may send codes that this version does not define. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_STATUS, code)
}

/** An expected failure. Anything that is not a `SluiceError` is a bug in Sluice. */
export class SluiceError extends Error {
  override readonly name: string = 'SluiceError'
  readonly code: ErrorCode
  /** Facts for machines: ids, states, limits. Never secrets, never payloads. */
  readonly details: Readonly<Record<string, unknown>>

  constructor(
    code: ErrorCode,
    message: string,
    options: { details?: Record<string, unknown>; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? {} : { cause: options.cause })
    this.code = code
    this.details = Object.freeze({ ...options.details })
  }

  get status(): number {
    return ERROR_STATUS[this.code]
  }

  /** How many seconds to wait before the next try, if the error is temporary and the time is known. */
  get retryAfter(): number | undefined {
    const { retryAfter } = this.details
    return typeof retryAfter === 'number' ? retryAfter : undefined
  }

  toJSON(): { code: ErrorCode; message: string; details: object } {
    return { code: this.code, message: this.message, details: this.details }
  }
}

/** Narrows by code, not by `instanceof`, so it survives a process boundary. */
export function hasCode<C extends ErrorCode>(
  error: unknown,
  code: C,
): error is SluiceError & { readonly code: C } {
  return typeof error === 'object' && error !== null && 'code' in error && error.code === code
}

/** Returns the message of an error, or any other thrown value as text. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}
