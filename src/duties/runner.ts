import type { Queryable } from '../db/database.ts'
import { isConnectionLoss } from '../db/sqlstate.ts'
import type { Log } from '../engine/log.ts'
import { messageOf } from '../errors.ts'
import { type ClaimedDuties, claimDuties } from '../store/claim-duties.ts'
import { recordDuty } from '../store/record-duty.ts'
import type { Duty } from './duty.ts'
import { expire } from './expire.ts'
import { promote } from './promote.ts'
import { prune } from './prune.ts'
import { reconcile } from './reconcile.ts'
import { recover } from './recover.ts'
import { sample } from './sample.ts'

export const DUTIES: readonly Duty[] = [promote, recover, expire, sample, reconcile, prune]

/** An idle worker asks for due duties this often; jitter spreads many of them. */
const TICK_MS = 1500

/** Between two ticks, jobs that are due are promoted at most this often. */
const SOON_MS = 20

/** Two looks at the database further apart than this, whoever made them, are no unbroken time. */
const LONGEST_GAP_MS = 2 * TICK_MS

/**
 * Does the duties of the system in this process.
 *
 * Modes: `new` -> `running` by `start()` -> `stopped` by `stop()`, for good.
 * Stopping before the start, and twice, is harmless. Every process may run one:
 * each tick of a duty goes to one of them, and two doing it at once is safe. A
 * tick that throws is logged; the next one runs.
 */
export class DutyRunner {
  readonly #db: Queryable
  readonly #log: Log
  readonly #name: string
  readonly #duties: readonly Duty[]
  readonly #tickMs: number
  readonly #onWake: (ms: number) => void
  #timer: NodeJS.Timeout | undefined
  #soon: NodeJS.Timeout | undefined
  #soonAt = 0
  #ticking: Promise<void> | undefined
  #promoting: Promise<void> | undefined
  #goodForMs = 0
  #brokenAt = performance.now()
  #mode: 'new' | 'running' | 'stopped' = 'new'

  /** @param onWake Told how long until the next wake-up of a workflow is due. */
  constructor(
    db: Queryable,
    log: Log,
    name: string,
    duties: readonly Duty[] = DUTIES,
    tickMs = TICK_MS,
    onWake: (ms: number) => void = () => {},
  ) {
    this.#onWake = onWake
    this.#db = db
    this.#log = log
    this.#name = name
    this.#duties = duties
    this.#tickMs = tickMs
  }

  start(): void {
    if (this.#mode !== 'new') return
    this.#mode = 'running'
    this.#next(0)
  }

  async stop(): Promise<void> {
    this.#mode = 'stopped'
    clearTimeout(this.#timer)
    clearTimeout(this.#soon)
    await Promise.all([this.#ticking, this.#promoting])
  }

  #next(ms: number): void {
    if (this.#mode !== 'running') return
    this.#timer = setTimeout(() => {
      this.#ticking = this.#tick().finally(() => this.#next(this.#tickMs * (0.8 + 0.4 * Math.random())))
    }, ms)
  }

  async #tick(): Promise<void> {
    let due: ClaimedDuties
    try {
      due = await claimDuties(
        this.#db,
        this.#duties,
        this.#name,
        LONGEST_GAP_MS,
        performance.now() - this.#brokenAt,
      )
      this.#goodForMs = due.goodForMs
      this.promoteIn(due.nextDueInMs)
      if (due.nextWakeInMs !== null) this.#onWake(due.nextWakeInMs)
    } catch (error) {
      this.#noteBroken(error)
      this.#log.warn({ error: messageOf(error) }, 'duties: the database cannot be reached')
      return
    }
    for (const duty of this.#duties) {
      if (due.names.includes(duty.name) && this.#mode === 'running') await this.#run(duty)
    }
  }

  /** An error the server answered with is no break: it was there. */
  #noteBroken(error: unknown): void {
    if (isConnectionLoss(error)) this.#brokenAt = performance.now()
  }

  /** @param early Between two ticks: nothing is recorded, for there may be many. */
  async #run(duty: Duty, early = false): Promise<void> {
    try {
      const report = await duty.run({ db: this.#db, log: this.#log, goodForMs: this.#goodForMs })
      if (report.summary !== undefined && !early) {
        const level = report.uneventful === true ? 'debug' : 'info'
        this.#log[level]({ duty: duty.name, ...report.summary }, 'duty done')
        await recordDuty(this.#db, duty.name, report.summary)
      }
      if (report.nextDueInMs !== undefined) this.promoteIn(report.nextDueInMs)
    } catch (error) {
      this.#noteBroken(error)
      this.#log.error(
        { duty: duty.name, error: messageOf(error) },
        'duty failed; it is tried again at its next tick',
      )
    }
  }

  /** A job is due in so many milliseconds. If that is before the next tick, it is promoted in time. */
  promoteIn(ms: number | null): void {
    if (ms === null || ms > TICK_MS || this.#mode !== 'running') return
    const at = performance.now() + ms
    if (this.#soon !== undefined && this.#soonAt <= at) return
    clearTimeout(this.#soon)
    this.#soonAt = at
    this.#soon = setTimeout(
      () => {
        this.#soon = undefined
        if (this.#mode === 'running') this.#promoting = this.#run(promote, true)
      },
      // Many processes know of the same job, and jobs may be due one after another: not each at its own instant.
      Math.max(SOON_MS * (1 + Math.random()), Math.ceil(ms)),
    )
  }
}
