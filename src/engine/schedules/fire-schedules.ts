import type { Queryable } from '../../db/database.ts'
import { messageOf } from '../../errors.ts'
import { Ticks } from '../../model/cron.ts'
import { type FiringPlan, planFirings, promptTick } from '../../model/schedule.ts'
import { type DueSchedule, findDueSchedules } from '../../store/find-due-schedules.ts'
import { type Fired, fireSchedule } from '../../store/fire-schedule.ts'
import { type DueTick, fireSchedules } from '../../store/fire-schedules.ts'
import type { Log } from '../log.ts'

/** The most schedules to read at once. */
const CHUNK = 500
/** Schedules fired in one statement. One at a time, 500 took 1.9 s in the median. */
const BATCH = 100
/** Each may have waited 2 s for another transaction, while other duties wait. */
const MAX_FAILURES = 3

export interface FiredCounts {
  readonly fired: number
  readonly skipped: number
  /** The time is used up, and more schedules may be due. */
  readonly more?: boolean
}

export interface FiringOptions {
  /** The database's clock unless given. */
  readonly now?: Date
  /**
   * After this time, no further batch begins. The rest stay due, and the next run begins with the oldest of each
   * owner.
   */
  readonly budgetMs?: number
}

/**
 * Deals with the ticks that are due, each owner's oldest first, one tick of a schedule after the other. Safe in any number of processes
 * at once: each tick is one's, and its job and its record are stored together or not at all. One schedule that cannot be fired keeps no
 * other from it; it is tried again.
 */
export async function fireDue(db: Queryable, log: Log, options: FiringOptions = {}): Promise<FiredCounts> {
  const { now, budgetMs = Number.POSITIVE_INFINITY } = options
  const round = new Round(db, log, budgetMs)
  for (;;) {
    const before = round.dealtWith
    const due = await findDueSchedules(db, CHUNK, now)
    const more = await round.fire(due)
    // What is left after a look without progress is somebody else's, or failed.
    if ((due.length < CHUNK && !more) || round.isOver || round.dealtWith === before) return round.counts
  }
}

/** A schedule whose ticks have to be fired one at a time has no `together`. */
interface Planned {
  readonly schedule: DueSchedule
  readonly ticks: Ticks
  readonly together: DueTick | undefined
}

/** One run over what is due. */
class Round {
  readonly #db: Queryable
  readonly #log: Log
  readonly #budgetMs: number
  #until: number
  #extended = false
  #fired = 0
  #skipped = 0
  #failures = 0
  /** A tick of a schedule was fired whose next one is due as well. */
  #more = false
  /** Many schedules have the same times; to work these out takes longer than to store a job. */
  readonly #known = new Map<string, Ticks>()

  constructor(db: Queryable, log: Log, budgetMs: number) {
    this.#db = db
    this.#log = log
    this.#budgetMs = budgetMs
    this.#until = performance.now() + budgetMs
  }

  get counts(): FiredCounts {
    // Not after a failure: firing at once would try it again and again.
    const more = performance.now() >= this.#until && this.dealtWith > 0 && this.#failures === 0
    return { fired: this.#fired, skipped: this.#skipped, ...(more && { more }) }
  }

  get dealtWith(): number {
    return this.#fired + this.#skipped
  }

  get isOver(): boolean {
    return performance.now() >= this.#until || this.#failures >= MAX_FAILURES
  }

  /** @returns whether some of these schedules have another tick that is due. */
  async fire(due: readonly DueSchedule[]): Promise<boolean> {
    this.#more = false
    let batch: Planned[] = []
    // While the database stores one batch, the next is worked out.
    let storing = Promise.resolve()
    for (const schedule of due) {
      batch.push(this.#plan(schedule))
      if (batch.length < BATCH && !this.isOver) continue
      await storing
      storing = this.#fireBatch(batch)
      batch = []
      if (this.isOver) break
    }
    await storing
    if (batch.length > 0) await this.#fireBatch(batch)
    return this.#more
  }

  #plan(schedule: DueSchedule): Planned {
    const { name, version, cron, timezone, nextAt, now } = schedule
    const times = `${cron}\n${timezone}`
    const ticks = this.#known.get(times) ?? new Ticks(cron, timezone)
    this.#known.set(times, ticks)
    const prompt = promptTick(schedule, nextAt.getTime(), now.getTime(), ticks)
    return { schedule, ticks, together: prompt && { name, version, nextAt, ...prompt } }
  }

  /**
   * Fires many schedules in one statement, and those one at a time that have missed a tick. All have to be fired one at a time when one
   * of the jobs would be refused: then the refusal is recorded for that one alone.
   */
  async #fireBatch(batch: readonly Planned[]): Promise<void> {
    const together = batch.flatMap((planned) => planned.together ?? [])
    let refused = false
    try {
      if (together.length > 0) this.#fireTogether(await fireSchedules(this.#db, together), together, batch)
    } catch (error) {
      refused = true
      this.#log.debug({ error: messageOf(error) }, 'could not fire schedules together')
    }
    const alone = batch.filter((planned) => refused || planned.together === undefined)
    if (alone.length === 0) return
    // Whatever the statement for all of them took, some are fired in each run; but the time is given once.
    if (!this.#extended) this.#until = performance.now() + this.#budgetMs
    this.#extended = true
    for (const planned of alone) {
      if (this.isOver) return
      await this.#fireOne(planned)
    }
  }

  #fireTogether(
    outcomes: Awaited<ReturnType<typeof fireSchedules>>,
    ticks: readonly DueTick[],
    [first]: readonly Planned[],
  ): void {
    for (const fired of outcomes) this.#note(fired.schedule, fired)
    const now = first!.schedule.now.getTime()
    if (outcomes.length > 0 && ticks.some(({ next }) => next !== undefined && next <= now)) this.#more = true
  }

  /** Its due tick, or after it has missed some those that are made up for, as long as nobody else does it and there is time. */
  async #fireOne({ schedule, ticks, together }: Planned): Promise<void> {
    const { name, version, now } = schedule
    const plan: FiringPlan =
      together === undefined
        ? planFirings(schedule, schedule.nextAt.getTime(), now.getTime(), ticks)
        : { fire: [together.tick], passed: undefined, next: together.next }
    if (plan.next !== undefined && plan.next <= now.getTime()) this.#more = true
    let nextAt = schedule.nextAt.getTime()
    const steps = plan.fire.length === 0 ? [undefined] : plan.fire
    try {
      for (const [index, tick] of steps.entries()) {
        const then = steps[index + 1] ?? plan.next
        const passed = index === 0 ? plan.passed : undefined
        const seen = { name, version, nextAt: new Date(nextAt) }
        const fired = await fireSchedule(this.#db, seen, { tick, passed, then })
        for (const each of fired) this.#note(name, each)
        if (fired.length === 0 || then === undefined || this.isOver) return
        nextAt = then
      }
    } catch (error) {
      this.#failures++
      this.#log.warn({ schedule: name, error: messageOf(error) }, 'could not fire a schedule; will try again')
    }
  }

  #note(schedule: string, fired: Fired): void {
    if (fired.skipped === null) this.#fired++
    else this.#skipped++
    tell(this.#log, schedule, fired)
  }
}

/** An episode of ticks that overlap with an earlier job is reported when it begins, and when it ends with their number. */
function tell(log: Log, schedule: string, { tickAt, skipped, reason, overlapped }: Fired): void {
  const facts = { schedule, tickAt, skipped, reason }
  if (skipped === 'overlap' && overlapped > 1) log.debug(facts, 'a tick of a schedule created no job')
  else if (skipped !== null && skipped !== 'disabled') log.warn(facts, 'a tick of a schedule created no job')
  if (skipped !== 'overlap' && overlapped > 0)
    log.info(
      { schedule, tickAt, ticks: overlapped },
      'the earlier job of a schedule has ended; overlapping ticks created no job',
    )
}
