import { performance } from 'node:perf_hooks'
import type { Queryable } from '../../db/database.ts'
import { hasCode, SluiceError } from '../../errors.ts'
import { findKeyHolder } from '../../store/find-key-holder.ts'
import type { Log } from '../log.ts'
import { countsAgainst, type RefusingLimit, refusingLimit } from './refusing-limit.ts'
import type { Submission } from './submitter.ts'

/** How long a refusal is taken for the answer to others. */
const REMEMBERED_MS = 100
/** From this age on, one at a time asks again, so that not all who wait do so in the same instant. */
const ASKED_AGAIN_MS = 70
/** Clients are never sent away for longer: rates change. */
const MAX_RETRY_AFTER = 60

/** Of tasks and of owners each; of more, those that were refused longest ago are forgotten. */
const MOST_REMEMBERED = 1000

/** How often a limit that rejects jobs writes a line to the log while it goes on. */
const LOG_AGAIN_MS = 60_000

const REACHED = {
  active: 'the ceiling on active jobs is reached',
  scheduled: 'too many jobs are scheduled for later',
  owner: 'their owner has reached the limit',
  queued: 'too many jobs of the task are waiting',
} as const

/** What the database said when it refused. */
interface Refusal {
  readonly at: number
  readonly message: string
  readonly details: Readonly<Record<string, unknown>>
  readonly limit: RefusingLimit
  /** What callers are told, by when they are to come back. */
  readonly answers: Map<number, Refused>
}

/** What a caller is told. The same object for the same words, so that whoever writes them down need do so once. */
export interface Refused {
  readonly message: string
  readonly details: Readonly<Record<string, unknown>> & { readonly retryAfter: number }
}

/**
 * Refuses from memory what the database has just refused, so that a server at its ceiling spends little on each of the
 * many that ask.
 *
 * A submission with a key may attach to an active job, which is always allowed: whether there is one is asked of the
 * database. Those that are refused are told to come back one after another, as fast as jobs end.
 */
export class AdmissionGate {
  readonly #db: Queryable
  readonly #now: () => number
  #ceiling: Refusal | undefined
  /** Since when somebody has been asking again. */
  #askedAt = Number.NEGATIVE_INFINITY
  /** Since when somebody has been on the way to ask. */
  #sentAt = Number.NEGATIVE_INFINITY
  readonly #depths = new Map<string, Refusal>()
  /** Of what one owner may have. */
  readonly #owners = new Map<string, Refusal>()
  /** Of scheduled jobs, by task: jobs of another task may have to be approved, and those are not scheduled. */
  readonly #scheduled = new Map<string, Refusal>()
  /** Jobs refused in this second and in the one before it. */
  #second = 0
  #refused = 0
  #refusedBefore = 0
  readonly #log: Log
  /** By limit: when the log last had a line of it, and how many jobs were rejected since. */
  readonly #logged = new Map<string, { at: number; jobs: number }>()

  constructor(db: Queryable, log: Log, now: () => number = () => performance.now()) {
    this.#db = db
    this.#log = log
    this.#now = now
  }

  /**
   * Submits, unless the answer is known.
   *
   * @throws {SluiceError} `ADMISSION_REJECTED`, from memory or from the database; whatever `submit` throws.
   */
  async pass<T>(submissions: readonly Submission[], submit: () => Promise<T>): Promise<T> {
    const refusal = this.#remembered(submissions)
    if (refusal !== undefined && !(await this.#mayAttach(submissions)))
      throw this.#refuse(refusal, submissions.length)
    try {
      return await submit()
    } catch (error) {
      if (!hasCode(error, 'ADMISSION_REJECTED')) throw error
      throw this.#refuse(this.#remember(error, submissions), submissions.length)
    }
  }

  /** The ceiling has just refused a single job: one more, without `key` and `runAt`, will most likely be refused from memory. */
  get shut(): boolean {
    return this.#isFresh(this.#ceiling, 1)
  }

  /**
   * The answer to a single job without `key` and `runAt`, where it is known, as `pass` would give it. `undefined` when it is not, or
   * when it is this one's turn to come to `pass` and ask again.
   */
  refuseOne(): Refused | undefined {
    const refusal = this.#ceiling
    if (refusal === undefined || !this.#isFresh(refusal, 1)) return undefined
    const now = this.#now()
    if (this.#isDue(refusal, now) && now - this.#sentAt >= REMEMBERED_MS - ASKED_AGAIN_MS) {
      this.#sentAt = now
      return undefined
    }
    return this.#answer(refusal, 1)
  }

  /** The limits have changed: what was refused may be let in now. */
  forget(): void {
    this.#ceiling = undefined
    this.#depths.clear()
    this.#owners.clear()
    this.#scheduled.clear()
  }

  #remembered(submissions: readonly Submission[]): Refusal | undefined {
    const tasks = [...new Set(submissions.map(({ task }) => task))]
    const owners = [...new Set(submissions.map(({ owner }) => owner ?? ''))]
    const depths = tasks.map((task) => this.#depths.get(task))
    for (const refusal of [this.#ceiling, ...depths, ...owners.map((owner) => this.#owners.get(owner))]) {
      if (refusal === undefined) continue
      const counts = (each: Submission) => countsAgainst(refusal.limit, each)
      if (this.#holds(refusal, submissions.filter(counts).length)) return refusal
    }
    for (const task of tasks) {
      const refusal = this.#scheduled.get(task)
      if (refusal === undefined) continue
      const counts = (each: Submission) => each.task === task && each.later === 'certain'
      if (this.#holds(refusal, submissions.filter(counts).length)) return refusal
    }
    return undefined
  }

  #isFresh(refusal: Refusal | undefined, count: number): boolean {
    return refusal !== undefined && this.#now() - refusal.at < REMEMBERED_MS && count > refusal.limit.room
  }

  /** True when so many are refused by it; not for the one whose turn it is to ask again. */
  #holds(refusal: Refusal | undefined, count: number): boolean {
    if (refusal === undefined || !this.#isFresh(refusal, count)) return false
    const now = this.#now()
    if (!this.#isDue(refusal, now)) return true
    this.#askedAt = now
    return false
  }

  #isDue(refusal: Refusal, now: number): boolean {
    return now - refusal.at >= ASKED_AGAIN_MS && now - this.#askedAt >= REMEMBERED_MS - ASKED_AGAIN_MS
  }

  /** One with a key is looked for; of many with keys the database is asked as a whole. */
  async #mayAttach(submissions: readonly Submission[]): Promise<boolean> {
    if (submissions.length > 1) return submissions.some(({ key }) => key !== undefined)
    const [{ task, key, owner }] = submissions as [Submission]
    return key !== undefined && (await findKeyHolder(this.#db, task, key, owner)) !== undefined
  }

  #remember(error: SluiceError, submissions: readonly Submission[]): Refusal {
    // How many jobs were asked for then says nothing to others.
    const { requested: _, ...details } = error.details
    const limit = refusingLimit(details)
    const refusal = { at: this.#now(), message: error.message, details, limit, answers: new Map() }
    if (limit.kind === 'active') this.#ceiling = refusal
    else if (limit.kind === 'owner') keep(this.#owners, limit.owner!, refusal)
    else if (limit.kind === 'queued') keep(this.#depths, limit.task!, refusal)
    else if (submissions.length === 1) keep(this.#scheduled, submissions[0]!.task, refusal)
    return refusal
  }

  #refuse(refusal: Refusal, count: number): SluiceError {
    const { message, details } = this.#answer(refusal, count)
    return new SluiceError('ADMISSION_REJECTED', message, { details })
  }

  #answer(refusal: Refusal, count: number): Refused {
    const { message, details, limit, answers } = refusal
    this.#logRejection(limit, details, count)
    const rate = Number(details.drainRate)
    const before = this.#countRefused(count)
    const seconds = Math.ceil((before + count - limit.room) / rate)
    const retryAfter =
      rate > 0 ? Math.min(MAX_RETRY_AFTER, Math.max(1, seconds)) : Number(details.retryAfter ?? 1)
    let answer = answers.get(retryAfter)
    if (answer === undefined) {
      const words = message.replace(/ in \d+ s$/, ` in ${retryAfter} s`)
      answer = { message: words, details: { ...details, retryAfter } }
      answers.set(retryAfter, answer)
    }
    return answer
  }

  /** The first job that a limit rejects writes a line; from then on there is one a minute, with how many there were. */
  #logRejection({ kind, task, owner }: RefusingLimit, details: Refusal['details'], count: number): void {
    const name = `${kind} ${task ?? owner ?? ''}`
    const last = this.#logged.get(name)
    const jobs = (last?.jobs ?? 0) + count
    const now = this.#now()
    const isDue = last === undefined || now - last.at >= LOG_AGAIN_MS
    keep(this.#logged, name, isDue ? { at: now, jobs: 0 } : { at: last.at, jobs })
    if (!isDue) return
    const { drainRate: _, retryAfter: __, ...facts } = details
    this.#log.warn({ ...facts, rejected: jobs }, `jobs rejected: ${REACHED[kind]}`)
  }

  /** How many others were refused lately: they come back first. */
  #countRefused(count: number): number {
    const second = Math.floor(this.#now() / 1000)
    if (second !== this.#second) {
      this.#refusedBefore = second === this.#second + 1 ? this.#refused : 0
      this.#refused = 0
      this.#second = second
    }
    const before = this.#refused + this.#refusedBefore
    this.#refused += count
    return before
  }
}

function keep<T>(map: Map<string, T>, name: string, value: T): void {
  map.delete(name)
  map.set(name, value)
  if (map.size <= MOST_REMEMBERED) return
  const [oldest] = map.keys()
  map.delete(oldest!)
}
