import type { Queryable, RawQueryable } from '../db/database.ts'
import { blamesValues, isConnectionLoss, isFenced, sqlState } from '../db/sqlstate.ts'
import { messageOf } from '../errors.ts'
import type { CycleAnswer, EndedAttempt } from '../model/assignment.ts'
import type { DeviceBudget, DeviceReading, ModelNews } from '../model/device.ts'
import type { WorkerIdentity } from '../model/worker-identity.ts'
import { endWorker } from '../store/end-worker.ts'
import { noteDone } from '../store/note-done.ts'
import { registerWorker } from '../store/register-worker.ts'
import { reportDevices } from '../store/report-devices.ts'
import type { NamedAttempt } from '../store/resync-worker.ts'
import { CycleSession, isOutOfStep } from './cycle-session.ts'
import { howManyFit } from './encode-endings.ts'
import type { FillOrder } from './fill-order.ts'
import { noteLateWrites } from './late-writes.ts'
import type { Log } from './log.ts'
import { RepeatedWarning } from './repeated-warning.ts'

export type { Beat } from '../store/beat.ts'

const UNREACHED = { assignments: [], lost: [], reached: false, again: false } as const

/**
 * The database side of one worker: its registration, the slots it holds, the
 * jobs it has been given, and the cycle that reports and takes jobs.
 *
 * Modes: `new` -> `in step` by `open()`. A cycle whose outcome is unknown (the
 * answer was lost), that was fenced, or that ended fewer jobs than were sent
 * leaves it `out of step`; the next cycle then resyncs first: the database says
 * what this worker runs, what it does not know is adopted, what it lost is
 * reported. A worker that was declared dead registers anew, as another one.
 */
export class Dispatcher {
  readonly #db: Queryable
  readonly #connection: RawQueryable
  readonly #identity: WorkerIdentity
  readonly #log: Log
  readonly #session: CycleSession
  readonly #outage: RepeatedWarning
  #outOfStep = true

  constructor(options: {
    db: Queryable
    connection: RawQueryable
    identity: WorkerIdentity
    /** Tasks that need a pool process. */
    processTasks: ReadonlySet<string>
    log: Log
    /** Whether hints arrive. */
    hears: () => boolean
  }) {
    const { db, connection, identity, processTasks, log, hears } = options
    this.#db = db
    this.#connection = connection
    this.#identity = identity
    this.#log = log
    this.#outage = new RepeatedWarning(log, 'cycles get through again')
    const { tasks, labels } = identity
    this.#session = new CycleSession({ db, connection, tasks, labels, processTasks, log, hears })
  }

  get workerId(): string {
    return this.#session.workerId
  }

  /** How long the poll is of each lane that it serves. */
  get polls(): ReadonlyMap<string, number> {
    return this.#session.polls
  }

  /** In how long to look again without a hint: something may lie before the place it looked from. Infinite: nothing may. */
  get lookAgainMs(): number {
    return this.#session.lookAgainMs
  }

  /** `stale` of the lanes it serves, by lane. */
  get staleByLane(): ReadonlyMap<string, number> {
    return this.#session.staleByLane
  }

  /** Where it stands among workers. */
  get order(): FillOrder {
    return this.#session.order
  }

  /** For how long it has held no job. */
  get idleMs(): number {
    return this.#session.idleMs
  }

  get holdsIdle(): boolean {
    return this.#session.holdsIdle
  }

  async open(): Promise<void> {
    await this.#register()
    await this.refresh()
  }

  /** Reads again what there is to serve. Lanes that are new to this worker take effect with the next cycle. */
  async refresh(): Promise<void> {
    if (await this.#session.refresh()) this.#outOfStep = true
  }

  /** Something happened that this worker was not told: the next cycle asks the database first. */
  markOutOfStep(): void {
    this.#outOfStep = true
  }

  /** Jobs that an answer gave and nobody has begun. Those that are still its own are given again after the resync. */
  disown(ids: readonly string[]): void {
    for (const id of ids) this.#session.forget(id)
    this.#outOfStep = true
  }

  /** Of these tasks the next cycles take at most so many. */
  limitTasks(limits: ReadonlyMap<string, number> | undefined): void {
    this.#session.limitTasks(limits)
  }

  /** Another worker waits for slots: hold none idle. */
  dropIdleSlots(): void {
    this.#session.dropIdleSlots()
  }

  /** What devices this worker offers, as it sees them. Gives the budgets that have devices. */
  reportDevices(readings: readonly DeviceReading[]): Promise<readonly DeviceBudget[]> {
    return reportDevices(this.#db, this.workerId, readings)
  }

  /**
   * @param news What became of models; stored when the answer says `newsTaken`.
   * @param lanes Those to look at; left out: all.
   */
  async cycle(
    ended: readonly EndedAttempt[],
    free: number,
    freeProcesses: number,
    news?: ModelNews,
    lanes?: ReadonlySet<string>,
  ): Promise<CycleAnswer> {
    if (this.#outOfStep || this.#session.lacksLanes) return this.#resync(ended)
    const fits = howManyFit(ended)
    if (fits < ended.length) {
      const answer = await this.cycle(ended.slice(0, fits), 0, 0)
      return { ...answer, unsent: [...answer.unsent, ...ended.slice(fits)] }
    }
    try {
      const rows = await this.#session.send(ended, free, freeProcesses, news, lanes)
      this.#outage.worked()
      for (const each of ended) this.#session.forget(each.id)
      if (isOutOfStep(rows)) {
        this.#log.warn(
          { worker: this.#identity.name },
          'some endings were refused: this worker no longer held the jobs',
        )
        return { ...(await this.#resync([])), newsTaken: true }
      }
      const { unload } = this.#session
      return {
        assignments: rows.map((row) => this.#session.adopt(row)),
        lost: [],
        unsent: [],
        reached: true,
        again: false,
        ...(unload.length > 0 && { unload }),
        ...(news !== undefined && { newsTaken: true }),
      }
    } catch (error) {
      return this.#afterFailure(error, ended)
    }
  }

  /** Of a worker of a pool, what it has done since the last time: pools tell what became of those they started. */
  async noteDone(): Promise<void> {
    const { workerId } = this
    if (typeof this.#identity.pool !== 'string' || workerId === '') return
    const jobs = this.#session.takeDone()
    if (jobs === 0) return
    try {
      await noteDone(this.#db, [{ workerId, jobs }])
    } catch (error) {
      this.#session.giveBackDone(jobs)
      this.#log.warn({ error: messageOf(error) }, 'could not note what this worker has done')
    }
  }

  async close(why: string): Promise<boolean> {
    await this.noteDone()
    return endWorker(this.#db, this.workerId, why)
  }

  async #afterFailure(error: unknown, ended: readonly EndedAttempt[]): Promise<CycleAnswer> {
    if (blamesValues(error) && ended.length > 0) return this.#sendOneByOne(ended)
    if (isFenced(error) || isConnectionLoss(error)) {
      this.#outOfStep = true
      const facts = { worker: this.#identity.name, error: messageOf(error) }
      this.#outage.failed(facts, 'cycle failed, its outcome is unknown: resync')
      return isFenced(error) ? this.#resync(ended) : { ...UNREACHED, unsent: ended }
    }
    // The server answered with an error, so nothing of this cycle happened.
    this.#log.error(
      { worker: this.#identity.name, error: messageOf(error), sqlState: sqlState(error) },
      'cycle failed',
    )
    return { ...UNREACHED, unsent: ended }
  }

  /** One ending of the batch cannot be stored: find it, and fail that job instead of holding up the others. */
  async #sendOneByOne(ended: readonly EndedAttempt[]): Promise<CycleAnswer> {
    const unsent: EndedAttempt[] = []
    for (const each of ended) {
      try {
        await this.#session.send([each], 0, 0)
        this.#session.forget(each.id)
      } catch (error) {
        if (!blamesValues(error)) unsent.push(each)
        else unsent.push(unstorable(each, error))
      }
    }
    return { assignments: [], lost: [], unsent, reached: true, again: true }
  }

  async #resync(ended: readonly EndedAttempt[]): Promise<CycleAnswer> {
    const session = this.#session
    try {
      const running = await session.resync(this.#named())
      if (running === undefined) return await this.#startOver(ended)
      const unsent = ended.filter((each) => running.get(each.id) === each.attempt)
      const settled = new Set(ended.filter((each) => !unsent.includes(each)).map((each) => each.id))
      const lost = [...session.held.keys()].filter((id) => !running.has(id) && !settled.has(id))
      const unknown = [...running.keys()].filter((id) => !session.held.has(id) || settled.has(id))
      // What can fail comes first: what is forgotten below is told only this once.
      const rows = await session.load(unknown)
      for (const id of [...settled, ...lost]) session.forget(id)
      const assignments = rows.map((row) => session.adopt(row))
      this.#outOfStep = false
      await noteLateWrites(this.#db, this.#identity.name, lost, 'it lost the lane they run in')
      return { assignments, lost, unsent, reached: true, again: true }
    } catch (error) {
      this.#outage.failed({ worker: this.#identity.name, error: messageOf(error) }, 'resync failed')
      return { ...UNREACHED, unsent: ended }
    }
  }

  /** Declared dead: others run its jobs now. Everything it has is lost; it goes on as a new worker. */
  async #startOver(ended: readonly EndedAttempt[]): Promise<CycleAnswer> {
    const lost = [...this.#session.held.keys()]
    this.#log.error(
      { worker: this.#identity.name, workerId: this.workerId, lost: lost.length, refused: ended.length },
      'this worker was declared dead; its late results are refused and it registers anew',
    )
    await this.#register()
    const late = [...new Set([...ended.map(({ id }) => id), ...lost])]
    await noteLateWrites(this.#db, this.#identity.name, late, 'it was declared dead and came back')
    for (const id of lost) this.#session.forget(id)
    return { assignments: [], lost, unsent: [], reached: true, again: true, startedOver: true }
  }

  async #register(): Promise<void> {
    this.#session.follow(await registerWorker(this.#connection, this.#identity))
    await this.#session.resync(this.#named())
    this.#outOfStep = false
  }

  #named(): NamedAttempt[] {
    return [...this.#session.held].map(([id, { attempt }]) => ({ id, attempt }))
  }
}

/** What is recorded of an attempt whose own outcome the database refuses. */
export function unstorable({ id, attempt }: EndedAttempt, error: unknown): EndedAttempt {
  const text = `the outcome cannot be stored: ${messageOf(error)}`
  return { id, attempt, ending: { kind: 'failed', error: text } }
}
