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

/** What keeps a worker from starting jobs: faults of its machine, and tasks that it lacks something for. */
export class StartFaults {
  readonly #options: StartOptions
  readonly #events: StartEvents
  /** Faults of this machine in a row. */
  #failedStarts = 0
  /** Tasks it could not start. */
  readonly #tasks = new FailedStarts()

  constructor(options: StartOptions, events: StartEvents) {
    this.#options = options
    this.#events = events
  }

  /** Too many faults of this machine in a row: it takes no jobs. */
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

  /** In how long a task that could not be started may be tried again. */
  get nextMs(): number {
    return this.#tasks.nextMs(performance.now())
  }

  /** This worker is another one now: operators have to hear again which tasks it cannot start. */
  startOver(): void {
    for (const { task, why, retryMs } of this.#tasks.withdrawn(performance.now()))
      this.#options.source.withdrawTask(task, why, retryMs)
  }

  /** A job was started: the machine is in order. */
  noteWorking(): void {
    if (!this.isBroken) this.#failedStarts = 0
  }

  /** Takes no more jobs until somebody brings it back: something this worker needs is missing or broken. */
  breakDown(cause: unknown): void {
    const error = errorText(cause)
    this.#failedStarts = FAILED_STARTS_UNTIL_BROKEN
    this.#events.broken(error)
    this.#options.log.error(
      { error },
      'this worker is broken and takes no more jobs; fix the cause, then undrain or restart it',
    )
  }

  /** Somebody says that it can start jobs again. */
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
   * The job goes back to the queue. Three in a row withdraw the task from this worker for a while, and nothing else. Gives what is
   * kept with the attempt.
   */
  noteFailed(attempt: RunningAttempt, error: StartFailure): StartFailure {
    const { id, task } = attempt.assignment
    const { retryMs, withdrawn } = this.#tasks.failed(task, error.message, performance.now())
    // Not at a time: that is the database's to say, and this machine's clock may differ.
    const text = `worker ${this.#options.name} cannot start task ${task}: ${error.message}; retries in ${formatDuration(retryMs)}`
    this.#options.log.error({ job: id, task, error: error.message, retryMs }, text)
    attempt.services.log('error', text)
    if (withdrawn) this.#options.source.withdrawTask(task, error.message, retryMs)
    return new StartFailure(text)
  }

  noteStarted(task: string): void {
    if (!this.#tasks.started(task)) return
    this.#options.log.info({ task }, 'a task that could not be started has started again')
    this.#options.source.restoreTask(task)
    this.#events.startable()
  }
}
