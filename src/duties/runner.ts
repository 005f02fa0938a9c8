import type { Queryable } from '../db/database.ts'
import { isConnectionLoss } from '../db/sqlstate.ts'
import type { Log } from '../engine/log.ts'
import { messageOf } from '../errors.ts'
import { toStorableText } from '../model/json.ts'
import { RepeatedWarning } from '../repeated-warning.ts'
import { type ClaimedDuties, claimDuties } from '../store/claim-duties.ts'
import { recordDuty, recordDutyFailure } from '../store/record-duty.ts'
import type { Duty } from './duty.ts'
import { EarlyRun } from './early-run.ts'
import { expire } from './expire.ts'
import { follow } from './follow.ts'
import { promote } from './promote.ts'
import { prune } from './prune.ts'
import { reconcile } from './reconcile.ts'
import { recover } from './recover.ts'
import { sample } from './sample.ts'
import { schedule } from './schedule.ts'

export const DUTIES: readonly Duty[] = [promote, schedule, recover, expire, follow, sample, reconcile, prune]

/** An idle worker asks for due duties this often; jitter spreads many of them. */
const TICK_MS = 1500

/** Two looks at the database further apart than this, whoever made them, are no unbroken time. */
const LONGEST_GAP_MS = 2 * TICK_MS

/** Each has one statement under way at most. Urgent duties come on top. */
const MOST_BATCHES = 2

/** Each of these runs as soon as it is claimed, beside everything else. The others may take as long as their work is large. */
const URGENT: ReadonlySet<string> = new Set([recover.name, expire.name, reconcile.name])

export interface DutyRunnerOptions {
  readonly duties?: readonly Duty[]
  readonly tickMs?: number
  /** Told how long until the next wake-up of a workflow is due. */
  readonly onWake?: (ms: number) => void
}

/**
 * Does the duties of the system in this process.
 *
 * Modes: `new` -> `running` by `start()` -> `stopped` by `stop()`, for good.
 * Stopping before the start, and twice, is harmless. Every process may run one:
 * each tick of a duty goes to one of them, and two doing it at once is safe. A
 * tick that throws is logged; the next one runs. Ticks go on beside a duty that
 * takes long, so the database is looked at without a break. The urgent duties wait
 * for no other: dead workers are taken over in time.
 */
export class DutyRunner {
  readonly #db: Queryable
  readonly #log: Log
  readonly #outage: RepeatedWarning
  readonly #name: string
  #duties: readonly Duty[]
  readonly #tickMs: number
  readonly #onWake: (ms: number) => void
  readonly #promoteEarly = new EarlyRun(() => this.#runEarly(promote), TICK_MS)
  /** Left to the ticks, a take-over took up to 2.5 s after the end of a lease on a busy machine. */
  readonly #recoverEarly = new EarlyRun(() => this.#runEarly(recover), LONGEST_GAP_MS)
  readonly #fireEarly = new EarlyRun(() => this.#runEarly(schedule), TICK_MS)
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> | undefined
  /** What each look has claimed, until it is done. */
  readonly #batches = new Set<Promise<void>>()
  readonly #urgent = new Set<Promise<void>>()
  /** Names of the duties that run now. */
  readonly #underWay = new Set<string>()
  #goodForMs = 0
  #lookedAt = 0
  #brokenAt = performance.now()
  #mode: 'new' | 'running' | 'stopped' = 'new'

  /** @param name Who is recorded as having done a duty. */
  constructor(db: Queryable, log: Log, name: string, options: DutyRunnerOptions = {}) {
    this.#db = this.#watched(db)
    this.#log = log
    this.#outage = new RepeatedWarning(log, 'duties: the database can be reached again')
    this.#name = name
    this.#duties = options.duties ?? DUTIES
    this.#tickMs = options.tickMs ?? TICK_MS
    this.#onWake = options.onWake ?? (() => {})
  }

  start(): void {
    if (this.#mode !== 'new') return
    this.#mode = 'running'
    this.#next(0)
  }

  /** One that only some processes can do. */
  add(duty: Duty): void {
    this.#duties = [...this.#duties, duty]
  }

  async stop(): Promise<void> {
    this.#mode = 'stopped'
    clearTimeout(this.#timer)
    await Promise.all([
      this.#recoverEarly.stop(),
      this.#promoteEarly.stop(),
      this.#fireEarly.stop(),
      this.#looking,
    ])
    await Promise.all([...this.#batches, ...this.#urgent])
  }

  #next(ms: number): void {
    if (this.#mode !== 'running') return
    this.#timer = setTimeout(() => {
      this.#looking = this.#tick().finally(() => this.#next(this.#tickMs * (0.8 + 0.4 * Math.random())))
    }, ms)
  }

  async #tick(): Promise<void> {
    let due: ClaimedDuties
    try {
      due = await claimDuties(
        this.#db,
        this.#free(),
        this.#name,
        LONGEST_GAP_MS,
        performance.now() - this.#brokenAt,
      )
      this.#outage.worked()
      this.#goodForMs = due.goodForMs
      this.#lookedAt = performance.now()
      if (this.#duties.includes(recover)) this.#recoverEarly.within(due.nextLossInMs)
      this.promoteIn(due.nextDueInMs)
      if (this.#mode === 'running') this.#fireEarly.within(due.nextTickInMs)
      if (due.nextWakeInMs !== null) this.#onWake(due.nextWakeInMs)
    } catch (error) {
      this.#outage.failed({ error: messageOf(error) }, 'duties: the database cannot be reached')
      return
    }
    const claimed = this.#duties.filter(({ name }) => due.names.includes(name))
    for (const duty of claimed.filter((each) => URGENT.has(each.name))) this.#begin([duty], this.#urgent)
    const others = claimed.filter((each) => !URGENT.has(each.name))
    if (others.length > 0) this.#begin(others, this.#batches)
  }

  #begin(duties: readonly Duty[], kept: Set<Promise<void>>): void {
    const batch = this.#runInTurn(duties).finally(() => kept.delete(batch))
    kept.add(batch)
  }

  /** Beside batches that take long others run too, as far as they leave connections of the pool to the rest of the process. */
  #free(): readonly Duty[] {
    const isFull = this.#batches.size >= MOST_BATCHES
    return this.#duties.filter((duty) => !this.#underWay.has(duty.name) && (!isFull || URGENT.has(duty.name)))
  }

  async #runInTurn(duties: readonly Duty[]): Promise<void> {
    for (const duty of duties) {
      // While it waited for its turn, a later look may have claimed it again.
      if (this.#mode !== 'running' || this.#underWay.has(duty.name)) continue
      this.#underWay.add(duty.name)
      await this.#run(duty)
      this.#underWay.delete(duty.name)
    }
  }

  /**
   * The database, noting when it could not be reached. Only statements tell: a duty may also fail for reasons of its own,
   * and one that always does must not keep dead workers from being taken over.
   */
  #watched(db: Queryable): Queryable {
    return {
      address: db.address,
      run: async (statement, values) => {
        try {
          return await db.run(statement, values)
        } catch (error) {
          // An error the server answered with is no break: it was there.
          if (isConnectionLoss(error)) this.#brokenAt = performance.now()
          throw error
        }
      },
    }
  }

  /** As the last look said, and the time since: that was unbroken too, unless this process noticed otherwise. */
  #goodFor(): number {
    const sinceLookMs = performance.now() - this.#lookedAt
    if (sinceLookMs > LONGEST_GAP_MS) return 0
    return Math.min(this.#goodForMs + sinceLookMs, performance.now() - this.#brokenAt)
  }

  /** @param early Between two ticks: nothing is recorded, for there may be many. */
  async #run(duty: Duty, early = false): Promise<void> {
    try {
      const report = await duty.run({
        db: this.#db,
        log: this.#log,
        goodForMs: this.#goodFor(),
        isStopping: () => this.#mode === 'stopped',
      })
      // There may be many promotions and firings, and few workers that die.
      if (report.summary !== undefined && (!early || duty === recover)) {
        const level = report.uneventful === true ? 'debug' : 'info'
        this.#log[level]({ duty: duty.name, ...report.summary }, 'duty done')
        await recordDuty(this.#db, duty.name, report.summary)
      }
      if (report.nextDueInMs !== undefined) this.promoteIn(report.nextDueInMs)
      if (report.nextTickInMs !== undefined) this.#fireEarly.within(report.nextTickInMs)
    } catch (error) {
      this.#log.error(
        { duty: duty.name, error: messageOf(error) },
        'duty failed; it is tried again at its next tick',
      )
      // Where the database is away nothing can be kept, and everybody sees it anyway.
      await recordDutyFailure(this.#db, duty.name, toStorableText(messageOf(error), 500)).catch(() => {})
    }
  }

  async #runEarly(duty: Duty): Promise<void> {
    // One that is under way reports when it is needed next. Twice at once it would only take connections from the others.
    if (duty !== recover && this.#underWay.has(duty.name)) return
    if (this.#mode === 'running') await this.#run(duty, true)
  }

  /** A job is due in so many milliseconds. If that is before the next tick, it is promoted in time. */
  promoteIn(ms: number | null): void {
    if (this.#mode === 'running') this.#promoteEarly.within(ms)
  }
}
