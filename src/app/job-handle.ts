import type { ResultWaiter } from '../engine/result-waiter.ts'
import { SluiceError } from '../errors.ts'
import { runningJob } from '../worker/running-job.ts'

/** A submitted job. */
export class JobHandle<Result = unknown> {
  readonly id: string
  /** True when an active job with the same key was found, and nothing new was stored. */
  readonly attached: boolean
  readonly #waiter: ResultWaiter

  constructor(id: string, attached: boolean, waiter: ResultWaiter) {
    this.id = id
    this.attached = attached
    this.#waiter = waiter
  }

  /**
   * Waits until the job has ended and gives its result.
   *
   * @throws {SluiceError} `JOB_FAILED` or `JOB_CANCELLED` with the job's error as message; `JOB_NOT_FOUND`;
   *   `WOULD_DEADLOCK` inside a running task, which would hold its slot while it waits: make the two jobs steps
   *   of a workflow instead.
   */
  async result(): Promise<Result> {
    const inside = runningJob.getStore()
    if (inside !== undefined) {
      throw new SluiceError(
        'WOULD_DEADLOCK',
        `job ${inside} would hold its slot while it waits for job ${this.id}; make both steps of a workflow, which holds no slot while it waits`,
        { details: { jobId: inside, waitsFor: this.id } },
      )
    }
    const ended = await this.#waiter.wait(this.id)
    if (ended.state === 'completed') return ended.result as Result
    const code = ended.state === 'failed' ? 'JOB_FAILED' : 'JOB_CANCELLED'
    throw new SluiceError(code, ended.error ?? ended.state, { details: { jobId: this.id } })
  }
}
