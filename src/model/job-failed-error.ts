import { SluiceError } from '../errors.ts'
import type { ErrorDetail } from './error-detail.ts'

/** How a job failed or was cancelled. */
export interface JobFailure {
  readonly id: string
  /** The name of the task or workflow. */
  readonly task: string
  readonly status: 'failed' | 'cancelled'
  /** The job's own error, as lists show it. */
  readonly error: string
  readonly isWorkflow: boolean
  /** What its last attempt threw. */
  readonly detail: ErrorDetail | null
}

/**
 * Thrown by `result()` of a job that failed (`JOB_FAILED`) or was cancelled (`JOB_CANCELLED`).
 *
 * `cause` is what the handler threw, rebuilt with its class, message, stack and causes, so that whatever prints this error
 * prints that too. Of a workflow it is the error of the job below that failed.
 */
export class JobFailedError extends SluiceError {
  override readonly name: string = 'JobFailedError'
  readonly #failure: JobFailure

  /** @internal */
  constructor(failure: JobFailure, below?: JobFailedError) {
    const { id, task, status, detail } = failure
    super(status === 'failed' ? 'JOB_FAILED' : 'JOB_CANCELLED', messageOf(failure), {
      details: { jobId: id, task },
      cause: below ?? (detail === null ? undefined : toError(detail)),
    })
    this.#failure = failure
  }

  get jobId(): string {
    return this.#failure.id
  }

  /** The name of the task or workflow. */
  get task(): string {
    return this.#failure.task
  }

  /** The job's own error, without the job's name and id. */
  get error(): string {
    return this.#failure.error
  }
}

function messageOf({ id, task, status, error, isWorkflow }: JobFailure): string {
  const how = status === 'failed' ? 'failed' : 'was cancelled'
  const command = isWorkflow && status === 'failed' ? 'trace' : 'show'
  return `job ${id} (${task}) ${how}: ${error.replace(/^cancelled: /, '')}. For details, run: sluice ${command} ${id}`
}

/** Rebuilds an error that was thrown elsewhere. */
export function toError(detail: ErrorDetail): Error {
  const { class: name, message, stack = [], properties = {}, value, cause, errors } = detail
  const error = new (classNamed(name))(message, cause === undefined ? {} : { cause: toError(cause) })
  const define = (key: string, given: unknown, enumerable: boolean) =>
    Object.defineProperty(error, key, { value: given, enumerable, configurable: true, writable: true })
  define('name', name, false)
  // The place where it is rebuilt would mislead.
  define('stack', [`${name}${message === '' ? '' : `: ${message}`}`, ...stack.map(at)].join('\n'), false)
  for (const [key, given] of Object.entries(properties))
    if (!Object.hasOwn(error, key)) define(key, given, true)
  if (value !== undefined && JSON.stringify(value) !== message) define('value', value, true)
  if (errors !== undefined) define('errors', errors.map(toError), false)
  return error
}

const BUILT_IN = [TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError] as const

/** Node prints an error whose class differs from its name as `Error [HttpError]`. */
function classNamed(name: string): ErrorConstructor {
  const known = BUILT_IN.find((each) => each.name === name)
  if (known !== undefined) return known as ErrorConstructor
  const own = class extends Error {}
  Object.defineProperty(own, 'name', { value: name })
  return own as unknown as ErrorConstructor
}

function at({ line }: { readonly line: string }): string {
  return `    at ${line}`
}
