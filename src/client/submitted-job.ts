import type { JobBody } from '../api/jobs.ts'
import { SluiceError } from '../errors.ts'
import { type Duration, formatDuration, parseDuration } from '../model/duration.ts'
import { ACTIVE_STATUSES } from '../model/job.ts'
import { isTimeout, within } from '../within.ts'
import { followJob } from './follow-job.ts'
import { type Link, segment } from './link.ts'
import { Patience } from './patience.ts'

export interface ResultOptions {
  /** How long to wait; then `RESULT_TIMEOUT`. Default: as long as it takes. */
  readonly timeout?: Duration | undefined
  /** Ends the waiting with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** A submitted job. */
export class SubmittedJob<Result = unknown> {
  readonly id: string
  /** True when an active job with the same key was found, and nothing new was stored. */
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
   * Waits until the job has ended and gives its result. A server that goes away is waited for; giving up changes nothing
   * for the job.
   *
   * @throws {SluiceError} `JOB_FAILED` or `JOB_CANCELLED` with the job's error as message; `JOB_NOT_FOUND`,
   *   also at once for the job of somebody else that a key was attached to; `RESULT_TIMEOUT`; the signal's own reason when that has fired; what the server refuses.
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
        `job ${this.id} has not ended within ${formatDuration(timeoutMs)}; it goes on`,
        { details: { jobId: this.id, timeoutMs } },
      )
    }
  }

  async #wait(signal: AbortSignal | undefined): Promise<Result> {
    for await (const { event } of followJob(this.#link, this.id, { logs: false, signal }))
      if (event === 'end') break
    const path = `/jobs/${segment(this.id, 'id')}`
    const job = await new Patience(signal).outlast(() => this.#link.call<JobBody>('GET', path, { signal }))
    // Run again meanwhile: its next end is the one.
    if (ACTIVE_STATUSES.some((active) => active === job.status)) return this.#wait(signal)
    if (job.status === 'completed') return job.result as Result
    const code = job.status === 'failed' ? 'JOB_FAILED' : 'JOB_CANCELLED'
    throw new SluiceError(code, job.error ?? job.status, { details: { jobId: this.id } })
  }
}

/** Attaching tells only the id of a job that the caller may not read: nobody can wait for its end. */
function notYours(id: string): SluiceError {
  const hint = 'submit again when the key is free, or with another key'
  return new SluiceError(
    'JOB_NOT_FOUND',
    `job ${id} has this key already and is not yours to read: its end cannot be waited for`,
    { details: { jobId: id, hint } },
  )
}
