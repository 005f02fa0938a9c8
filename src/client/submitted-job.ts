import type { JobBody, TraceBody } from '../api/jobs.ts'
import { SluiceError } from '../errors.ts'
import { type Duration, formatDuration, parseDuration } from '../model/duration.ts'
import { ACTIVE_STATUSES } from '../model/job.ts'
import { JobFailedError, type JobFailure } from '../model/job-failed-error.ts'
import { isTimeout, within } from '../within.ts'
import { followJob } from './follow-job.ts'
import { type Link, segment } from './link.ts'
import { Patience } from './patience.ts'

export interface ResultOptions {
  /** How long to wait before failing with `RESULT_TIMEOUT`. Default: no limit. */
  readonly timeout?: Duration | undefined
  /** Ends the wait with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** A submitted job. */
export class SubmittedJob<Result = unknown> {
  readonly id: string
  /** True if an active job with the same key was found and nothing new was stored. */
  readonly attached: boolean
  readonly #link: Link
  readonly #readable: boolean

  /** @internal */
  constructor(link: Link, id: string, attached: boolean, readable = true) {
    this.#link = link
    this.#readable = readable
    this.id = id
    this.attached = attached
  }

  /**
   * Waits until the job has ended and returns its result. Waits for a server that becomes unavailable. Giving up does
   * not affect the job.
   *
   * @throws {JobFailedError} `JOB_FAILED` or `JOB_CANCELLED`, with what the handler threw as `cause`.
   * @throws {SluiceError} `JOB_NOT_FOUND`,
   *   also for another owner's job to which a key was attached; `RESULT_TIMEOUT`; the signal's reason if it fires; the
   *   server's error.
   */
  async result({ timeout, signal }: ResultOptions = {}): Promise<Result> {
    if (!this.#readable) throw notYours(this.id)
    if (timeout === undefined) return this.#wait(signal)
    const timeoutMs = parseDuration(timeout, 'timeout')
    try {
      return await within(Math.max(1, timeoutMs), signal, (either) => this.#wait(either))
    } catch (error) {
      if (!isTimeout(error) || error === signal?.reason) throw error
      throw new SluiceError(
        'RESULT_TIMEOUT',
        `job ${this.id} did not end within ${formatDuration(timeoutMs)}; it continues`,
        { details: { jobId: this.id, timeoutMs } },
      )
    }
  }

  async #wait(signal: AbortSignal | undefined): Promise<Result> {
    for await (const { event } of followJob(this.#link, this.id, { logs: false, signal }))
      if (event === 'end') break
    const path = `/jobs/${segment(this.id, 'id')}`
    const job = await new Patience(signal).outlast(() => this.#link.call<JobBody>('GET', path, { signal }))
    // The job was run again in the meantime, so its next end counts.
    if (ACTIVE_STATUSES.some((active) => active === job.status)) return this.#wait(signal)
    if (job.status === 'completed') return job.result as Result
    throw new JobFailedError(toFailure(job), await this.#failureBelow(job))
  }

  async #failureBelow({ id, kind, status }: JobBody): Promise<JobFailedError | undefined> {
    if (kind === null || status !== 'failed') return undefined
    try {
      const { failure } = await this.#link.call<TraceBody>('GET', `/jobs/${segment(id, 'id')}/trace`)
      if (failure === id) return undefined
      const below = await this.#link.call<JobBody>('GET', `/jobs/${segment(failure, 'id')}`)
      return new JobFailedError(toFailure(below))
    } catch {
      // The job may be running again. The workflow's own error says what is known.
      return undefined
    }
  }
}

function toFailure({ id, task, kind, status, error, errorDetail }: JobBody): JobFailure {
  const ended = status === 'failed' ? 'failed' : 'cancelled'
  return { id, task, status: ended, error: error ?? ended, isWorkflow: kind !== null, detail: errorDetail }
}

/** Attaching returns only the id of a job that the caller may not read, so its end cannot be awaited. */
function notYours(id: string): SluiceError {
  const hint = 'Submit again when the key is free, or use another key'
  return new SluiceError(
    'JOB_NOT_FOUND',
    `job ${id} already has this key and belongs to another owner, so its end cannot be awaited`,
    { details: { jobId: id, hint } },
  )
}
