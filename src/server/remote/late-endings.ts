import type { Logger } from 'pino'
import type { Queryable } from '../../db/database.ts'
import { messageOf } from '../../errors.ts'
import type { JobAttempt } from '../../model/assignment.ts'
import { recordLateEndings } from '../../store/record-late-endings.ts'

/** Attempts that are remembered, so that the same refusal is told once however often it is sent. */
const REMEMBERED = 10_000

/** Tells people, in the log and among the recoveries, of what workers behind this server said and were refused. */
export class LateEndings {
  readonly #db: Queryable
  readonly #log: Logger
  readonly #told = new Set<string>()

  constructor(db: Queryable, log: Logger) {
    this.#db = db
    this.#log = log
  }

  /** Does not fail: that it cannot be written down changes nothing. */
  async note(
    worker: { readonly id: string; readonly name: string },
    attempts: readonly JobAttempt[],
    detail: string,
  ): Promise<void> {
    const fresh = attempts.filter((each) => this.#isFresh(`${worker.id} ${each.id} ${each.attempt}`))
    if (fresh.length === 0) return
    const who = { worker: worker.name, workerId: worker.id }
    try {
      const jobs = await recordLateEndings(this.#db, worker, fresh, detail)
      if (jobs.length > 0)
        this.#log.warn({ ...who, jobs: jobs.slice(0, 20), refused: jobs.length, why: detail }, REFUSED)
    } catch (error) {
      const jobs = fresh.slice(0, 20).map(({ id }) => id)
      this.#log.warn(
        { ...who, jobs, refused: fresh.length, why: detail, notNoted: messageOf(error) },
        REFUSED,
      )
    }
  }

  #isFresh(attempt: string): boolean {
    if (this.#told.has(attempt)) return false
    this.#told.add(attempt)
    // Forgets the eldest: a set keeps the order in which things were put in.
    if (this.#told.size > REMEMBERED) this.#told.delete(this.#told.values().next().value!)
    return true
  }
}

const REFUSED = 'rejected the report of a worker about jobs that it does not hold'
