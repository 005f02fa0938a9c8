import { format } from 'node:util'
import { SluiceError } from '../errors.ts'
import type { Jsonified } from '../model/jsonified.ts'
import type { Attempt, AttemptServices, JobFacts, ModelInUse } from './attempt.ts'

/** What a task's `run(input, ctx)` gets, inline and in a pool process alike. */
export interface TaskContext {
  /** Fires on cancel, timeout, lost lease and shutdown; `signal.reason` says which. */
  readonly signal: AbortSignal
  /** 1 on the first try. */
  readonly attempt: number
  readonly job: JobFacts
  /** Keys of the devices it may use: uuids of GPUs, or `HOST/NAME`. Empty when it draws from no budget that has devices. */
  readonly devices: readonly string[]
  /** The model of its task, on those devices; `undefined` when it has none. `llama.of(ctx)` gives its value with its type. */
  readonly model: ModelInUse | undefined
  /**
   * A folder private to this attempt, removed in every ending. It is made when
   * this is first read, so a task that needs none pays nothing.
   */
  readonly workdir: string
  readonly log: TaskLog
  readonly checkpoint: Checkpoint
  /** How far the task is, from 0 to 1. Only the last of a burst is stored. */
  progress(fraction: number, message?: string): void
  /**
   * Runs `fn` at most once to the end per job: its result is committed under
   * `name`, and later attempts get that result without running `fn`. Two calls
   * with one name are one step, so put the loop's index into the name. Every
   * attempt gets the result as it comes out of JSON: a `Date` is a text.
   */
  step<T>(name: string, fn: () => T | Promise<T>): Promise<Jsonified<T>>
}

/** Lines kept with the job. Arguments are put together as `console.log` does it. */
export interface TaskLog {
  debug(...parts: unknown[]): void
  info(...parts: unknown[]): void
  warn(...parts: unknown[]): void
  error(...parts: unknown[]): void
}

/** One JSON value kept with the job, for code that can go on where an earlier attempt stopped. */
export interface Checkpoint {
  /** The last value set by any attempt of this job, else `undefined`. */
  get<T = unknown>(): Promise<T | undefined>
  set(value: unknown): Promise<void>
}

/**
 * The context of one attempt. Cheap: one object; the parts are made when they
 * are first read (12 ns when none is).
 *
 * `step`, `progress` and `checkpoint` throw the `Stop` once the signal has
 * fired, so code that only uses them stops at its next one. `log` never throws.
 */
export function createContext(attempt: Attempt): TaskContext {
  return new AttemptContext(attempt)
}

const NO_DEVICES: readonly string[] = Object.freeze([])

class AttemptContext implements TaskContext {
  readonly #attempt: Attempt
  #log: AttemptLog | undefined
  #checkpoint: AttemptCheckpoint | undefined
  #progress: TaskContext['progress'] | undefined
  #step: TaskContext['step'] | undefined

  constructor(attempt: Attempt) {
    this.#attempt = attempt
  }

  get signal(): AbortSignal {
    return this.#attempt.signal
  }

  get attempt(): number {
    return this.#attempt.number
  }

  get job(): JobFacts {
    return this.#attempt.job
  }

  get devices(): readonly string[] {
    return this.#attempt.devices ?? NO_DEVICES
  }

  get model(): ModelInUse | undefined {
    return this.#attempt.model
  }

  get workdir(): string {
    return this.#attempt.workdir()
  }

  get log(): TaskLog {
    this.#log ??= new AttemptLog(this.#attempt.services)
    return this.#log
  }

  get checkpoint(): Checkpoint {
    this.#checkpoint ??= new AttemptCheckpoint(this.#attempt)
    return this.#checkpoint
  }

  // The functions are bound, and only when asked for, because tasks like to
  // write `run: async (input, { step, log }) => ...`.
  get progress(): TaskContext['progress'] {
    this.#progress ??= reportProgress.bind(undefined, this.#attempt)
    return this.#progress
  }

  get step(): TaskContext['step'] {
    this.#step ??= ((name: string, fn: () => unknown) =>
      tolerated(runStep(this.#attempt, name, fn))) as TaskContext['step']
    return this.#step
  }
}

function reportProgress(attempt: Attempt, fraction: number, message?: string): void {
  attempt.signal.throwIfAborted()
  if (typeof fraction !== 'number' || Number.isNaN(fraction)) {
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `progress: ${format('%o', fraction)} is not a fraction; use a number from 0 to 1`,
    )
  }
  attempt.services.progress(
    Math.min(1, Math.max(0, fraction)),
    message === undefined ? undefined : String(message),
  )
}

/**
 * A task that forgets to await must not take the worker with it: the rejection of what nobody waits for would end the
 * process, and every other job in it. Whoever does await still gets it.
 */
function tolerated<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {})
  return promise
}

async function runStep(attempt: Attempt, name: string, fn: () => unknown): Promise<unknown> {
  attempt.signal.throwIfAborted()
  if (typeof name !== 'string' || name === '') {
    throw new SluiceError('INVALID_ARGUMENT', 'step: the name must be a text that is not empty')
  }
  if (typeof fn !== 'function') {
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `step ${JSON.stringify(name)}: the second argument must be a function`,
    )
  }
  const stored = await attempt.services.loadStep(name)
  attempt.signal.throwIfAborted()
  if (stored !== undefined) return stored.result

  const result = await fn()
  // A step that was done when the stop came is still offered: if the lease
  // stands, the next attempt need not do it again. The code is stopped anyway.
  try {
    return await attempt.services.saveStep(name, result)
  } finally {
    attempt.signal.throwIfAborted()
  }
}

class AttemptCheckpoint implements Checkpoint {
  readonly #attempt: Attempt

  constructor(attempt: Attempt) {
    this.#attempt = attempt
  }

  get<T>(): Promise<T | undefined> {
    return tolerated(this.#get<T>())
  }

  set(value: unknown): Promise<void> {
    return tolerated(this.#set(value))
  }

  async #get<T>(): Promise<T | undefined> {
    this.#attempt.signal.throwIfAborted()
    const value = await this.#attempt.services.loadCheckpoint()
    this.#attempt.signal.throwIfAborted()
    // The database has no value for "never set"; a checkpoint of null is the same thing.
    return (value ?? undefined) as T | undefined
  }

  async #set(value: unknown): Promise<void> {
    this.#attempt.signal.throwIfAborted()
    await this.#attempt.services.saveCheckpoint(value)
  }
}

class AttemptLog implements TaskLog {
  readonly #services: AttemptServices

  constructor(services: AttemptServices) {
    this.#services = services
  }

  debug(...parts: unknown[]): void {
    this.#services.log('debug', formatParts(parts))
  }

  info(...parts: unknown[]): void {
    this.#services.log('info', formatParts(parts))
  }

  warn(...parts: unknown[]): void {
    this.#services.log('warn', formatParts(parts))
  }

  error(...parts: unknown[]): void {
    this.#services.log('error', formatParts(parts))
  }
}

/** Objects may say themselves how they are shown, and fail at it; a log line must not. */
function formatParts(parts: unknown[]): string {
  try {
    return format(...parts)
  } catch {
    return 'could not format this line: one of its values cannot be shown'
  }
}
