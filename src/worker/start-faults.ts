import { formatDuration } from '../model/duration.ts'
import { FAILED_STARTS_UNTIL_BROKEN } from '../model/limits.ts'
import { type BrokenWorker, StartFailure } from './attempt.ts'
import { errorText } from './ending.ts'
import { FailedStarts } from './failed-starts.ts'
import type { JobSource } from './job-source.ts'
import type { RunningAttempt } from './running-attempt.ts'
import type { WorkerLog } from './worker-log.ts'

interface StartOptions {
  readonly name: string
  readonly source: Pick<JobSource, 'withdrawTask' | 'restoreTask'>
  readonly log: WorkerLog
}

export interface StartEvents {
  /** A task that could not be started has started: more jobs of it may be taken. */
  startable(): void
  /** This worker cannot start jobs any more. */
  broken(why: string): void
}

/** Tracks why a worker cannot start jobs: faults of its machine, and tasks whose requirements it does not meet. */
export class StartFaults {
  readonly #options: StartOptions
  readonly #events: StartEvents
  /** Consecutive faults of this machine. */
  #failedStarts = 0
  /** Tasks that could not start. */
  readonly #tasks = new FailedStarts()

  constructor(options: StartOptions, events: StartEvents) {
    this.#options = options
    this.#events = events
  }

  /** After too many consecutive faults of its machine, the worker takes no jobs. */
  get isBroken(): boolean {
    return this.#failedStarts >= FAILED_STARTS_UNTIL_BROKEN
  }

  /** Whether this task could not be started lately. */
  has(task: string): boolean {
    return this.#tasks.has(task)
  }

  limits(isStarting: (task: string) => boolean): ReadonlyMap<string, number> | undefined {
    return this.#tasks.limits(isStarting, performance.now())
  }

  /** The time until a task that could not start may be tried again. */
  get nextMs(): number {
    return this.#tasks.nextMs(performance.now())
  }

  /** Reports the tasks that cannot start again, because the worker has registered under a new id. */
  startOver(): void {
    for (const { task, why, retryMs } of this.#tasks.withdrawn(performance.now()))
      this.#options.source.withdrawTask(task, why, retryMs)
  }

  /** A job has started, so the machine works. */
  noteWorking(): void {
    if (!this.isBroken) this.#failedStarts = 0
  }

  /** Stops taking jobs until an operator undrains the worker. */
  breakDown(cause: unknown): void {
    const error = errorText(cause)
    this.#failedStarts = FAILED_STARTS_UNTIL_BROKEN
    this.#events.broken(error)
    this.#options.log.error(
      { error },
      'this worker is broken and takes no more jobs; fix the cause, then undrain or restart it',
    )
  }

  /** An operator undrained the worker. */
  mend(): void {
    this.#failedStarts = 0
  }

  noteBroken(error: BrokenWorker): void {
    if (this.isBroken) return
    this.#failedStarts++
    this.#options.log.error(
      { error: error.message, failedStarts: this.#failedStarts },
      'this worker could not start a job',
    )
    if (this.isBroken) this.breakDown(error)
  }

  /**
   * The job goes back to the queue. Three consecutive failures withdraw only this task from this worker for a while. Returns the error
   * that is stored with the attempt.
   */
  noteFailed(attempt: RunningAttempt, error: StartFailure): StartFailure {
    const { id, task } = attempt.assignment
    const { retryMs, withdrawn } = this.#tasks.failed(task, error.message, performance.now())
    // A duration and not a time, because the clock of this machine may differ from the clock of the database.
    const text = `worker ${this.#options.name} cannot start task ${task}: ${error.message}; retries in ${formatDuration(retryMs)}`
    this.#options.log.error({ job: id, task, error: error.message, retryMs }, text)
    attempt.services.log('error', text)
    if (withdrawn) this.#options.source.withdrawTask(task, error.message, retryMs)
    return new StartFailure(text)
  }

  noteStarted(task: string): void {
    if (!this.#tasks.started(task)) return
    this.#options.log.info({ task }, 'a task that could not start has started again')
    this.#options.source.restoreTask(task)
    this.#events.startable()
  }
}
