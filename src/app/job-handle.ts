import type { Patience, ResultWaiter } from '../engine/submit/result-waiter.ts'
import { SluiceError } from '../errors.ts'
import { checkOptions, invalidArgument, optionNames } from '../model/argument.ts'
import { type Duration, formatDuration, parseDuration } from '../model/duration.ts'
import { MAX_TIMER_MS } from '../model/limits.ts'
import { runningJob } from '../worker/running-job.ts'

export interface ResultOptions {
  /** How long to wait before failing with `RESULT_TIMEOUT`. Default: no limit. */
  readonly timeout?: Duration | undefined
  /** Ends the wait with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

const RESULT_OPTIONS = optionNames<ResultOptions>({ timeout: true, signal: true })

/** A submitted job. `Result` is the type of its result after JSON serialization. */
export class JobHandle<Result = unknown> {
  readonly id: string
  /** True if an active job with the same key was found and nothing new was stored. */
  readonly attached: boolean
  readonly #waiter: ResultWaiter

  constructor(id: string, attached: boolean, waiter: ResultWaiter) {
    this.id = id
    this.attached = attached
    this.#waiter = waiter
  }

  /**
   * Waits until the job has ended and returns its result.
   *
   * Without a timeout, it waits as long as it takes. Giving up does not affect the job.
   *
   * @throws {JobFailedError} `JOB_FAILED` or `JOB_CANCELLED`, with what the handler threw as `cause`.
   * @throws {SluiceError} `JOB_NOT_FOUND`;
   *   `RESULT_TIMEOUT`; the signal's reason if it fires;
   *   `WOULD_DEADLOCK` inside a running task, which would hold its slot while waiting. Make the two jobs steps
   *   of a workflow instead.
   */
  async result(options: ResultOptions = {}): Promise<Result> {
    const patience = patienceOf(options)
    const inside = runningJob.getStore()
    if (inside !== undefined) {
      throw new SluiceError(
        'WOULD_DEADLOCK',
        `job ${inside} would hold its slot while it waits for job ${this.id}; make both steps of a workflow, which holds no slot while it waits`,
        { details: { jobId: inside, waitsFor: this.id } },
      )
    }
    const ended = await this.#waiter.wait(this.id, patience)
    if (ended.state === 'completed') return ended.result as Result
    throw await this.#waiter.failureOf(ended)
  }
}

function patienceOf(options: ResultOptions): Patience {
  checkOptions(options, RESULT_OPTIONS, 'options')
  const { timeout, signal } = options
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw invalidArgument('signal', signal, 'an AbortSignal')
  if (timeout === undefined) return { signal }
  const timeoutMs = parseDuration(timeout, 'timeout')
  if (timeoutMs < 1 || timeoutMs > MAX_TIMER_MS)
    throw invalidArgument('timeout', timeout, `from 1ms to ${formatDuration(MAX_TIMER_MS)}`)
  return { signal, timeoutMs }
}
