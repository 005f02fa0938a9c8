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

/** Every process checks for due duties this often, with jitter to spread the checks. */
const TICK_MS = 1500

/** If two checks of the database, by any processes, are further apart than this, the time between them counts as a break. */
const LONGEST_GAP_MS = 2 * TICK_MS

/** The most sequences of duties that run at once, each with at most one statement at a time. Urgent duties run in addition. */
const MOST_BATCHES = 2

/** Each of these runs as soon as it is claimed, whatever else is running. The other duties may take long when they have much work. */
const URGENT: ReadonlySet<string> = new Set([recover.name, expire.name, reconcile.name])

export interface DutyRunnerOptions {
  readonly duties?: readonly Duty[]
  readonly tickMs?: number
  /** Called with the number of milliseconds until the next wake-up of a workflow is due. */
  readonly onWake?: (ms: number) => void
}

/**
 * Does the duties of the system in this process.
 *
 * Modes: `new` -> `running` by `start()` -> `stopped` by `stop()`, for good.
 * Stopping before the start, or twice, is harmless. Every process may have a runner:
 * each tick of a duty goes to one of them, and it is safe when two run a duty at once.
 * If a tick throws, the error is logged and the next tick runs. Ticks continue while
 * a duty takes long, so the database is checked without a break. Urgent duties do not
 * wait for others, so dead workers are taken over in time.
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
  /** Without this timer, a takeover came up to 2.5 s after the end of a lease on a busy machine. */
  readonly #recoverEarly = new EarlyRun(() => this.#runEarly(recover), LONGEST_GAP_MS)
  readonly #fireEarly = new EarlyRun(() => this.#runEarly(schedule), TICK_MS)
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> | undefined
  /** The running sequences of duties: one for each check that claimed any. */
  readonly #batches = new Set<Promise<void>>()
  readonly #urgent = new Set<Promise<void>>()
  /** The names of the duties that run now. */
  readonly #underWay = new Set<string>()
  #goodForMs = 0
  #lookedAt = 0
  #brokenAt = performance.now()
  #mode: 'new' | 'running' | 'stopped' = 'new'

  /** @param name The name that is recorded with each duty this process does. */
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

  /** Adds a duty that only some processes can do. */
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

  /**
   * Returns the duties that this process may claim now. While the most sequences run, these are only the urgent ones, so that connections
   * of the pool remain for the rest of the process.
   */
  #free(): readonly Duty[] {
    const isFull = this.#batches.size >= MOST_BATCHES
    return this.#duties.filter((duty) => !this.#underWay.has(duty.name) && (!isFull || URGENT.has(duty.name)))
  }

  async #runInTurn(duties: readonly Duty[]): Promise<void> {
    for (const duty of duties) {
      // While the duty waited for its turn, a later check may have claimed it again.
      if (this.#mode !== 'running' || this.#underWay.has(duty.name)) continue
      this.#underWay.add(duty.name)
      await this.#run(duty)
      this.#underWay.delete(duty.name)
    }
  }

  /**
   * Wraps the database to record when it could not be reached. Only the errors of statements count: a duty may also fail for its own
   * reasons, and a duty that always fails must not prevent the takeover of dead workers.
   */
  #watched(db: Queryable): Queryable {
    return {
      address: db.address,
      run: async (statement, values) => {
        try {
          return await db.run(statement, values)
        } catch (error) {
          // An error that the server returned is not a break: the server was reachable.
          if (isConnectionLoss(error)) this.#brokenAt = performance.now()
          throw error
        }
      },
    }
  }

  /** Adds the time since the last check to what that check returned. That time was unbroken too, unless this process noticed a break. */
  #goodFor(): number {
    const sinceLookMs = performance.now() - this.#lookedAt
    if (sinceLookMs > LONGEST_GAP_MS) return 0
    return Math.min(this.#goodForMs + sinceLookMs, performance.now() - this.#brokenAt)
  }

  /** @param early Whether the duty runs between two ticks. There may be many such runs, so only those of `recover` are logged and recorded. */
  async #run(duty: Duty, early = false): Promise<void> {
    try {
      const report = await duty.run({
        db: this.#db,
        log: this.#log,
        goodForMs: this.#goodFor(),
        isStopping: () => this.#mode === 'stopped',
      })
      // Early promotions and firings can be frequent; workers rarely die.
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
      // If the database cannot be reached, the failure cannot be stored. The ticks log the outage.
      await recordDutyFailure(this.#db, duty.name, toStorableText(messageOf(error), 500)).catch(() => {})
    }
  }

  async #runEarly(duty: Duty): Promise<void> {
    // A running duty reports when it is needed next. A second run at the same time would only take connections from the others.
    if (duty !== recover && this.#underWay.has(duty.name)) return
    if (this.#mode === 'running') await this.#run(duty, true)
  }

  /** Arms a promotion for a job that is due in `ms` milliseconds, or for none if `null`. A job due after the next tick is left to it. */
  promoteIn(ms: number | null): void {
    if (this.#mode === 'running') this.#promoteEarly.within(ms)
  }
}
