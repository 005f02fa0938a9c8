import type { Queryable } from '../db/database.ts'
import type { Listener } from '../db/listener.ts'
import { SluiceError } from '../errors.ts'
import { announceWaiting } from '../store/announce-waiting.ts'
import { existingJobs } from '../store/existing-jobs.ts'
import { type EndedJob, loadEndings } from '../store/load-endings.ts'

const FIRST_POLL_MS = 20
const LONGEST_POLL_MS = 1000
/** How long one announcement lasts; renewed while somebody waits. */
const ANNOUNCE_MS = 10_000
const ASK_AT_ONCE = 10_000

interface Waiter {
  readonly resolve: (job: EndedJob) => void
  readonly reject: (error: unknown) => void
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
  readonly #waiters = new Map<string, Waiter[]>()
  #announcedAt = Number.NEGATIVE_INFINITY
  #pollMs = FIRST_POLL_MS
  #timer: NodeJS.Timeout | undefined
  #asking = false
  #unsubscribe: (() => void) | undefined
  #rounds = 0

  constructor(db: Queryable, listener: Listener, process: string) {
    this.#db = db
    this.#listener = listener
    this.#process = process
  }

  /** Resolves when the job has ended, whichever way. Rejects when there is no such job, or on close. */
  wait(id: string): Promise<EndedJob> {
    return new Promise((resolve, reject) => {
      const waiters = this.#waiters.get(id)
      if (waiters === undefined) this.#waiters.set(id, [{ resolve, reject }])
      else waiters.push({ resolve, reject })
      this.#unsubscribe ??= this.#listener.subscribe((topic) => topic === 'done' && this.nudge())
      this.#listener.start()
      this.#pollMs = FIRST_POLL_MS
      this.#schedule(0)
    })
  }

  /** Something ended somewhere: look soon. */
  nudge(): void {
    if (this.#waiters.size === 0) return
    this.#pollMs = FIRST_POLL_MS
    this.#schedule(1)
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#unsubscribe?.()
    for (const waiters of this.#waiters.values()) {
      for (const waiter of waiters)
        waiter.reject(new SluiceError('CLOSED', 'closed while waiting for a result'))
    }
    this.#waiters.clear()
  }

  #schedule(ms: number): void {
    if (this.#asking) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#ask(), ms)
  }

  async #ask(): Promise<void> {
    this.#asking = true
    try {
      if (performance.now() - this.#announcedAt > ANNOUNCE_MS / 2) {
        this.#announcedAt = performance.now()
        await announceWaiting(this.#db, this.#process, ANNOUNCE_MS)
      }
      const ids = [...this.#waiters.keys()]
      for (let from = 0; from < ids.length; from += ASK_AT_ONCE) {
        for (const job of await loadEndings(this.#db, ids.slice(from, from + ASK_AT_ONCE))) this.#settle(job)
      }
      // A job that is gone, pruned or deleted, never ends: look for that now and then.
      if (this.#rounds++ % 20 === 19) await this.#rejectMissing()
    } catch {
      // The database is away. Whoever waits goes on waiting; this is only a poll.
    } finally {
      this.#asking = false
    }
    if (this.#waiters.size > 0) {
      this.#schedule(this.#pollMs)
      this.#pollMs = Math.min(LONGEST_POLL_MS, this.#pollMs * 1.5)
    }
  }

  #settle(job: EndedJob): void {
    const waiters = this.#waiters.get(job.id)
    this.#waiters.delete(job.id)
    this.#pollMs = FIRST_POLL_MS
    for (const waiter of waiters ?? []) waiter.resolve(job)
  }

  async #rejectMissing(): Promise<void> {
    const ids = [...this.#waiters.keys()].slice(0, ASK_AT_ONCE)
    const existing = await existingJobs(this.#db, ids)
    for (const id of ids) {
      if (existing.has(id)) continue
      const waiters = this.#waiters.get(id) ?? []
      this.#waiters.delete(id)
      for (const waiter of waiters) {
        waiter.reject(
          new SluiceError('JOB_NOT_FOUND', `job ${id} does not exist`, { details: { jobId: id } }),
        )
      }
    }
  }
}
