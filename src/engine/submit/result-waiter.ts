import type { Queryable } from '../../db/database.ts'
import type { Listener } from '../../db/listener.ts'
import { SluiceError } from '../../errors.ts'
import { formatDuration } from '../../model/duration.ts'
import { JobFailedError, type JobFailure } from '../../model/job-failed-error.ts'
import { ANNOUNCEMENT_MS } from '../../model/limits.ts'
import { announceWaiting } from '../../store/announce-waiting.ts'
import { type EndedJob, loadEndings } from '../../store/load-endings.ts'
import { jobNotFound } from '../operate/job-control.ts'
import { trace } from '../views/trace.ts'

const FIRST_POLL_MS = 20
const LONGEST_POLL_MS = 1000
const ASK_AT_ONCE = 10_000
/** A job that is not there for this long does not exist: until then its submission may not have been committed. */
const MISSING_MS = 2000

/** How long somebody waits, where that is not for ever. */
export interface Patience {
  readonly timeoutMs?: number | undefined
  /** Ends the waiting with its reason. */
  readonly signal?: AbortSignal | undefined
}

interface Waiter {
  readonly resolve: (job: EndedJob) => void
  readonly reject: (error: unknown) => void
}

interface Awaited {
  readonly waiters: Set<Waiter>
  missingSince: number | undefined
}

/**
 * Waits for jobs to end: any number of them with one shared poll.
 *
 * A finishing worker sends a hint when some process has announced that it
 * waits; the poll behind it starts at 20 ms and slows down to a second while
 * nothing ends.
 */
export class ResultWaiter {
  readonly #db: Queryable
  readonly #listener: Listener
  readonly #process: string
  readonly #jobs = new Map<string, Awaited>()
  #announcedAt = Number.NEGATIVE_INFINITY
  #pollMs = FIRST_POLL_MS
  #timer: NodeJS.Timeout | undefined
  #asking = false
  #unsubscribe: (() => void) | undefined
  #closed = false

  constructor(db: Queryable, listener: Listener, process: string) {
    this.#db = db
    this.#listener = listener
    this.#process = process
  }

  /** Resolves when the job has ended, whichever way. Rejects when there is no such job, on close, or out of patience. */
  wait(id: string, { timeoutMs, signal }: Patience = {}): Promise<EndedJob> {
    if (this.#closed) return Promise.reject(closed())
    if (signal?.aborted) return Promise.reject(signal.reason)
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined
      const onAbort = () => waiter.reject(signal?.reason)
      const leave = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
        this.#forget(id, waiter)
      }
      const waiter: Waiter = {
        resolve: (job) => {
          leave()
          resolve(job)
        },
        reject: (error) => {
          leave()
          reject(error)
        },
      }
      signal?.addEventListener('abort', onAbort)
      if (timeoutMs !== undefined)
        timer = setTimeout(() => waiter.reject(outOfPatience(id, timeoutMs)), timeoutMs)
      const job = this.#jobs.get(id)
      if (job === undefined) this.#jobs.set(id, { waiters: new Set([waiter]), missingSince: undefined })
      else job.waiters.add(waiter)
      this.#unsubscribe ??= this.#listener.subscribe((topic) => topic === 'done' && this.nudge())
      this.#listener.start()
      this.#pollMs = FIRST_POLL_MS
      this.#schedule(0)
    })
  }

  /** What `result()` throws for a job that did not complete; of a workflow with the error of the job below that failed. */
  async failureOf(job: EndedJob): Promise<JobFailedError> {
    return new JobFailedError(toFailure(job), await this.#failureBelow(job))
  }

  async #failureBelow({ id, composite, state }: EndedJob): Promise<JobFailedError | undefined> {
    if (composite === null || state !== 'failed') return undefined
    try {
      const { failure } = await trace(this.#db, id)
      const [below] = failure === id ? [] : (await loadEndings(this.#db, [failure])).ended
      return below === undefined ? undefined : new JobFailedError(toFailure(below))
    } catch {
      // It may be running again by now, or the database is away: the workflow's own error says what is known.
      return undefined
    }
  }

  /** Something ended somewhere: look soon. */
  nudge(): void {
    if (this.#jobs.size === 0) return
    this.#pollMs = FIRST_POLL_MS
    this.#schedule(1)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#unsubscribe?.()
    for (const { waiters } of this.#jobs.values()) for (const waiter of waiters) waiter.reject(closed())
    this.#jobs.clear()
  }

  #forget(id: string, waiter: Waiter): void {
    const job = this.#jobs.get(id)
    job?.waiters.delete(waiter)
    if (job?.waiters.size === 0) this.#jobs.delete(id)
    if (this.#jobs.size === 0) clearTimeout(this.#timer)
  }

  #schedule(ms: number): void {
    if (this.#asking) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#ask(), ms)
  }

  async #ask(): Promise<void> {
    this.#asking = true
    try {
      if (performance.now() - this.#announcedAt > ANNOUNCEMENT_MS / 2) {
        this.#announcedAt = performance.now()
        await announceWaiting(this.#db, this.#process, ANNOUNCEMENT_MS)
      }
      const ids = [...this.#jobs.keys()]
      for (let from = 0; from < ids.length; from += ASK_AT_ONCE) {
        const { ended, missing } = await loadEndings(this.#db, ids.slice(from, from + ASK_AT_ONCE))
        for (const job of ended) this.#settle(job)
        for (const id of missing) this.#miss(id)
      }
    } catch {
      // The database is away. Whoever waits goes on waiting; this is only a poll.
    } finally {
      this.#asking = false
    }
    if (this.#jobs.size > 0) {
      this.#schedule(this.#pollMs)
      this.#pollMs = Math.min(LONGEST_POLL_MS, this.#pollMs * 1.5)
    }
  }

  #settle(job: EndedJob): void {
    const awaited = this.#jobs.get(job.id)
    this.#jobs.delete(job.id)
    this.#pollMs = FIRST_POLL_MS
    for (const waiter of awaited?.waiters ?? []) waiter.resolve(job)
  }

  #miss(id: string): void {
    const awaited = this.#jobs.get(id)
    if (awaited === undefined) return
    awaited.missingSince ??= performance.now()
    if (performance.now() - awaited.missingSince < MISSING_MS) return
    this.#jobs.delete(id)
    for (const waiter of awaited.waiters) {
      waiter.reject(jobNotFound(this.#db, id))
    }
  }
}

function toFailure({ id, task, state, error, composite, detail }: EndedJob): JobFailure {
  const status = state === 'failed' ? 'failed' : 'cancelled'
  return { id, task, status, error: error ?? status, isWorkflow: composite !== null, detail }
}

function outOfPatience(id: string, timeoutMs: number): SluiceError {
  return new SluiceError(
    'RESULT_TIMEOUT',
    `job ${id} did not end within ${formatDuration(timeoutMs)}; it continues`,
    { details: { jobId: id, timeoutMs } },
  )
}

function closed(): SluiceError {
  return new SluiceError(
    'CLOSED',
    'this program has closed its connection to Sluice and no longer waits for results',
  )
}
