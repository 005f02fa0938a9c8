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
  /** An input was refused by the task's own schema. */
  INVALID_INPUT: 400,
  /** A value cannot be stored as JSON: NUL, lone surrogate, NaN, too deep, too large, a cycle. */
  NOT_STORABLE: 400,
  /** No valid API key or session came with the request. */
  UNAUTHENTICATED: 401,
  /** The caller's role does not allow this. */
  FORBIDDEN: 403,
  /** The server has no such address. */
  ROUTE_NOT_FOUND: 404,
  /** The address exists, but not with this method. */
  METHOD_NOT_ALLOWED: 405,
  /** The request did not arrive in time. */
  REQUEST_TIMEOUT: 408,
  /** The body of a request is larger than the server takes. */
  PAYLOAD_TOO_LARGE: 413,
  /** The body of a request is not JSON in UTF-8. */
  UNSUPPORTED_MEDIA_TYPE: 415,
  /** No task of that name is known. */
  UNKNOWN_TASK: 404,
  /** No lane of that name exists. */
  UNKNOWN_LANE: 404,
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
  /** No pool of workers has that name. */
  POOL_NOT_FOUND: 404,
  /** The key is held by an active job that was submitted with another input. */
  KEY_CONFLICT: 409,
  /** The Idempotency-Key was used for another request within 24 hours, or is in use right now. */
  IDEMPOTENCY_CONFLICT: 409,
  /** The address takes no Idempotency-Key. */
  IDEMPOTENCY_UNSUPPORTED: 400,
  /** The job is not in a state that allows this. */
  ILLEGAL_TRANSITION: 409,
  /** The job is no fan-out with a window that could be resized. */
  NO_FANOUT: 409,
  NO_WINDOW: 409,
  /** The role is built in, its name is taken, or keys have it. */
  ROLE_CONFLICT: 409,
  /** Nobody would be left who may manage access. */
  LAST_ADMIN: 409,
  /** A budget cannot be deleted while tasks use it. */
  BUDGET_IN_USE: 409,
  /** A lane of that name exists already. */
  LANE_EXISTS: 409,
  /** The task fixes its lane, and the submission names another one. */
  LANE_FIXED: 409,
  /** The task's own lane is paused, and the submission names another one. */
  LANE_PAUSED: 409,
  /** A lane that is in use cannot be deleted without a lane to move to. */
  LANE_IN_USE: 409,
  /** A task has the name of a workflow, or a workflow that of a task. */
  NAME_TAKEN: 409,
  /** A task that needs approval cannot be deleted. */
  TASK_NEEDS_APPROVAL: 409,
  /** A schedule of that name exists already. */
  SCHEDULE_EXISTS: 409,
  /** The owner has as many schedules as one owner may have. */
  TOO_MANY_SCHEDULES: 409,
  /** The lease is no longer held by whoever wrote. */
  LEASE_LOST: 409,
  /** A worker was started for a pool that has as many as it may, or that has this one already. */
  SURPLUS_WORKER: 409,
  /** A running task waited for another job's result and would hold its slot while doing so. */
  WOULD_DEADLOCK: 409,
  /** The job ended without success; thrown by `result()`. */
  JOB_FAILED: 422,
  /** The job was cancelled; thrown by `result()`. */
  JOB_CANCELLED: 422,
  /** The job has not ended within the time that `result()` was given. It goes on. */
  RESULT_TIMEOUT: 504,
  /** A program or pool process that ran a task ended badly, or left no usable result. */
  ATTEMPT_FAILED: 422,
  /** An expression of a workflow cannot be read, or not worked out with the values it was given. */
  EXPRESSION_FAILED: 422,
  /** An attempt has stored as many steps as it may. */
  STEPS_FULL: 422,
  /** A job needs more of a budget than any device has: it could never start. */
  BUDGET_EXCEEDED: 422,
  /** The ceiling on active jobs is reached, or that on jobs of one owner or on waiting jobs of the task. */
  ADMISSION_REJECTED: 429,
  /** More requests or streams with this key are open than one key may have at a server. */
  TOO_MANY_REQUESTS: 429,
  /** Too many wrong keys came from this address. */
  TOO_MANY_FAILURES: 429,
  /** The database cannot be reached, or refuses to do its work. */
  DATABASE_UNAVAILABLE: 503,
  /** The server of Sluice cannot be reached, or cannot do its work. */
  SERVER_UNAVAILABLE: 503,
  /** The data folder has no database, and the command does not create one. */
  DATABASE_NOT_FOUND: 404,
  /** The database's settings or schema do not fit this program. */
  DATABASE_UNSUITABLE: 500,
  /** No embedded PostgreSQL exists for this platform, or it did not start. */
  EMBEDDED_UNAVAILABLE: 500,
  /** This worker cannot start any task: no workdir, a failing initialiser. */
  WORKER_BROKEN: 503,
  /** This worker cannot start this task: its program is missing, or its module cannot be loaded. */
  START_FAILED: 503,
  /** A task names a user for its program, and this worker cannot run programs as that user, or not safely. */
  EXEC_USER_UNAVAILABLE: 500,
  /** Whoever starts workers for a pool could not do it: no answer, no rights, no room. */
  PROVISIONER_FAILED: 502,
  /** No process of the pool is free; whoever asks must look at `free` first. */
  POOL_FULL: 503,
  /** The process, application or worker is being closed. */
  CLOSED: 503,
  /** A bug in Sluice, as a server tells it: the log has the cause under the request's id. */
  INTERNAL: 500,
} as const satisfies Record<string, number>

export type ErrorCode = keyof typeof ERROR_STATUS

/** A newer program may have codes that this one does not know. */
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

  /** Of a refusal that passes: after how many seconds to try again. `undefined` where that is not known. */
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

/** What was thrown, in words: an error's message, or the thing itself as text. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}
