import type { Queryable, RawQueryable } from '../db/database.ts'
import { blamesValues, isFenced, sqlState } from '../db/sqlstate.ts'
import type { Assignment, EndedAttempt } from '../model/assignment.ts'
import type { ClaimedRow } from '../model/claim.ts'
import type { ModelNews, ModelOnDevice } from '../model/device.ts'
import { allows, checkLaneScope } from '../model/run-scope.ts'
import { CycleSession, isOutOfStep, type SessionOptions } from './cycle-session.ts'
import { unstorable } from './dispatcher.ts'
import { howManyFit } from './encode-endings.ts'
import type { Log } from './log.ts'
import { workerEnded } from './remote-workers.ts'

/** A job by the attempt that holds it. */
export interface JobAttempt {
  readonly id: string
  readonly attempt: number
}

export interface RemoteCycle {
  readonly ended: readonly EndedAttempt[]
  /** Everything else the worker runs, as it knows. */
  readonly running: readonly JobAttempt[]
  readonly free: number
  readonly freeProcesses: number
  /** Of these tasks it takes at most so many. */
  readonly limits?: ReadonlyMap<string, number>
  readonly news?: ModelNews
  /** The lanes to look at; left out: all. */
  readonly lanes?: ReadonlySet<string>
}

export interface RemoteAnswer {
  /** Jobs to start: newly claimed, or given by an answer that did not arrive. */
  readonly assignments: readonly Assignment[]
  /** Of `running`: no longer held. */
  readonly lost: readonly string[]
  /** Of `ended`: not held, or recorded before. Nothing was changed by them. */
  readonly refused: readonly JobAttempt[]
  /** True when this round only set things right, and jobs may be waiting. */
  readonly again: boolean
  /** Models that have to make room. */
  readonly unload?: readonly ModelOnDevice[]
  /** The news is stored. */
  readonly newsTaken?: boolean
}

/** A fence is lifted by a resync. One that comes back at once is another server's that serves the same worker. */
const TRIES = 3

/**
 * The database side of a worker that speaks to a server.
 *
 * It keeps the same picture as a direct worker's dispatcher, but only as a cache: the worker says in every cycle what it
 * runs, and the database has the last word. So any server can take the worker over by a resync, at any time. What the
 * worker runs by the database and does not name was given to it by an answer that it never got: it is given again.
 */
export class RemoteDispatcher {
  readonly #session: CycleSession
  readonly #keyId: string
  #lanes: readonly string[] = ['*']
  /** Lanes of what it ran when this server first heard of it: until its first cycle here nothing else is known. */
  readonly #lanesBefore: readonly string[]
  #outOfStep = true
  #offerChanged = true
  /** The last cycle stored the news that came with it. */
  #newsTaken = false

  constructor(options: {
    readonly db: Queryable
    readonly connection: RawQueryable
    readonly worker: {
      readonly id: string
      readonly keyId: string | null
      readonly tasks: readonly string[]
      readonly labels: Readonly<Record<string, unknown>>
      readonly pooled: readonly string[]
      readonly heldLanes: readonly string[]
    }
    readonly resync?: SessionOptions['resync']
    readonly log: Log
    /** Whether hints arrive. */
    readonly hears: () => boolean
  }) {
    const { db, connection, worker, resync, log, hears } = options
    const { tasks, labels, pooled } = worker
    this.#keyId = worker.keyId ?? ''
    this.#lanesBefore = worker.heldLanes
    this.#session = new CycleSession({
      db,
      connection,
      tasks,
      labels,
      processTasks: new Set(pooled),
      resync,
      log,
      hears,
    })
    this.#session.follow(worker.id)
  }

  /**
   * Takes jobs of these lanes only.
   *
   * @param patterns Of their names, as the worker's key has them.
   * @throws {SluiceError} `FORBIDDEN` when it holds a job of another lane.
   */
  limitLanes(patterns: readonly string[]): void {
    this.#lanes = patterns
    this.#session.limitLanes((lane) => allows(patterns, lane))
    this.#checkLanes()
  }

  /** What it was given before its key was narrowed it neither reports nor keeps: once it is silent, others run it. */
  #checkLanes(): void {
    const held = [...this.#session.held.values()].map(({ lane }) => lane)
    for (const lane of this.#outOfStep ? [...held, ...this.#lanesBefore] : held)
      checkLaneScope(this.#lanes, lane, this.#keyId)
  }

  /** How long the poll is of each lane that it serves. */
  get polls(): ReadonlyMap<string, number> {
    return this.#session.polls
  }

  get lookAgainMs(): number {
    return this.#session.lookAgainMs
  }

  /** What a heartbeat tells of other workers. */
  notePeers(peers: number, before: number): void {
    this.#session.order.notePeers(peers, before)
  }

  /** For how long it has held no job. */
  get idleMs(): number {
    return this.#session.idleMs
  }

  get holdsIdle(): boolean {
    return this.#session.holdsIdle
  }

  /** How many jobs it holds. */
  get running(): number {
    return this.#session.held.size
  }

  /** Lanes or classes have changed: they are read again before the next cycle. */
  noteOffer(): void {
    this.#offerChanged = true
  }

  /** The next cycle has to ask the database first what the worker holds. */
  get isOutOfStep(): boolean {
    return this.#outOfStep
  }

  /** Something happened that this picture does not show: the next cycle asks the database first. */
  markOutOfStep(): void {
    this.#outOfStep = true
  }

  dropIdleSlots(): void {
    this.#session.dropIdleSlots()
  }

  /** Whether the worker runs just what it holds, as far as is known here. */
  holdsExactly(running: readonly JobAttempt[]): boolean {
    const { held } = this.#session
    return (
      !this.#outOfStep &&
      running.length === held.size &&
      running.every((each) => held.get(each.id)?.attempt === each.attempt)
    )
  }

  /** How many jobs it has ended since the last time this was asked. */
  takeDone(): number {
    return this.#session.takeDone()
  }

  /** They could not be noted. */
  giveBackDone(jobs: number): void {
    this.#session.giveBackDone(jobs)
  }

  /** The lanes it serves. */
  get lanes(): Iterable<string> {
    return this.#session.staleByLane.keys()
  }

  /** Gives back slots that nothing has run in for a while. The worker need not ask for it. */
  async giveBack(): Promise<void> {
    if (!this.#outOfStep) await this.#send([], 0, 0, new Set(), undefined)
  }

  /**
   * Reports and takes jobs. Cycles of one worker must not overlap. Sending the same again after an answer that did not
   * arrive changes nothing twice.
   *
   * @throws {SluiceError} `WORKER_NOT_FOUND` when the worker has ended. What the database throws is passed on; the outcome
   *   is then unknown, and the next cycle sets it right.
   */
  async cycle(request: RemoteCycle): Promise<RemoteAnswer> {
    const recorded = new Set<string>()
    this.#session.limitTasks(request.limits)
    for (let tries = 1; ; tries++) {
      try {
        await this.#getInStep(request)
        return await this.#cycle(request, recorded)
      } catch (error) {
        // An error with a SQLSTATE was answered: nothing happened. Any other may have lost the answer.
        if (isFenced(error) || sqlState(error) === undefined) this.#outOfStep = true
        if (!isFenced(error) || tries === TRIES) throw error
      }
    }
  }

  /**
   * Asks the database what the worker holds, without a cycle.
   *
   * @throws {SluiceError} `WORKER_NOT_FOUND` when the worker has ended.
   */
  catchUp(request: RemoteCycle): Promise<void> {
    return this.#getInStep(request)
  }

  async #getInStep(request: RemoteCycle): Promise<void> {
    if (this.#offerChanged) {
      this.#offerChanged = false
      try {
        if (await this.#session.refresh()) this.#outOfStep = true
      } catch (error) {
        this.#offerChanged = true
        throw error
      }
    }
    if (this.#outOfStep || this.#session.lacksLanes) await this.#resync(request)
  }

  /** What this server gave the worker and it does not name, it has not begun: nobody has to remember that. */
  async #resync({ running: named, ended }: RemoteCycle): Promise<void> {
    const session = this.#session
    const own = [...named, ...ended].map(({ id, attempt }) => ({ id, attempt }))
    const running = await session.resync(own)
    if (running === undefined) throw workerEnded(session.workerId)
    const unknown = [...running].filter(([id, attempt]) => session.held.get(id)?.attempt !== attempt)
    const rows = await session.load(unknown.map(([id]) => id))
    for (const [id, { attempt }] of session.held) if (running.get(id) !== attempt) session.forget(id)
    for (const row of rows) session.adopt(row)
    this.#outOfStep = false
  }

  async #cycle(request: RemoteCycle, recorded: Set<string>): Promise<RemoteAnswer> {
    this.#checkLanes()
    const { held } = this.#session
    const holds = ({ id, attempt }: JobAttempt) => held.get(id)?.attempt === attempt
    const sent = new Map<string, EndedAttempt>()
    for (const each of request.ended) if (holds(each) && !sent.has(each.id)) sent.set(each.id, each)
    const refused = request.ended.filter((each) => sent.get(each.id) !== each && !recorded.has(each.id))
    const kept = new Set(request.running.filter(holds).map((each) => each.id))
    const undelivered = [...held.keys()].filter((id) => !kept.has(id) && !sent.has(id))
    // What an earlier answer gave it fills the places it asks for now.
    const free = undelivered.length > 0 ? 0 : request.free
    const { news, lanes } = request
    const rows = await this.#send([...sent.values()], free, request.freeProcesses, recorded, news, lanes)
    const { unload } = this.#session
    const again = undelivered.length > 0 ? await this.#session.load(undelivered) : []
    return {
      assignments: [...again, ...rows].map((row) => this.#session.adopt(row)),
      lost: request.running.filter((each) => !kept.has(each.id)).map((each) => each.id),
      refused: refused.map(({ id, attempt }) => ({ id, attempt })),
      again: this.#outOfStep || undelivered.length > 0,
      ...(unload.length > 0 && { unload }),
      // Told again, it changes nothing.
      ...(news !== undefined && { newsTaken: this.#newsTaken }),
    }
  }

  async #send(
    ended: readonly EndedAttempt[],
    free: number,
    freeProcesses: number,
    recorded: Set<string>,
    news: ModelNews | undefined,
    lanes?: ReadonlySet<string>,
  ): Promise<readonly ClaimedRow[]> {
    this.#newsTaken = false
    const fits = howManyFit(ended)
    if (fits < ended.length) {
      await this.#send(ended.slice(0, fits), 0, 0, recorded, undefined)
      return this.#send(ended.slice(fits), free, freeProcesses, recorded, news, lanes)
    }
    let rows: ClaimedRow[]
    try {
      rows = await this.#session.send(ended, free, freeProcesses, news, lanes)
      this.#newsTaken = true
    } catch (error) {
      return this.#afterRefusal(error, ended, recorded)
    }
    for (const { id } of ended) {
      this.#session.forget(id)
      recorded.add(id)
    }
    if (!isOutOfStep(rows)) return rows
    this.#outOfStep = true
    return []
  }

  /** An ending that the database cannot store fails its job instead of holding up the others. */
  async #afterRefusal(
    error: unknown,
    ended: readonly EndedAttempt[],
    recorded: Set<string>,
  ): Promise<readonly ClaimedRow[]> {
    if (!blamesValues(error) || ended.length === 0) throw error
    if (ended.length > 1) {
      for (const each of ended) await this.#send([each], 0, 0, recorded, undefined)
      return []
    }
    const mended = unstorable(ended[0]!, error)
    // Should that be refused too, nothing would be left to try.
    await this.#session.send([mended], 0, 0)
    this.#session.forget(mended.id)
    recorded.add(mended.id)
    return []
  }
}
