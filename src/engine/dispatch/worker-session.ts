import type { Queryable, RawQueryable } from '../../db/database.ts'
import { blamesValues, isFenced, isSecondOutcome, sqlState } from '../../db/sqlstate.ts'
import { messageOf } from '../../errors.ts'
import type {
  Assignment,
  CycleAnswer,
  CycleRequest,
  EndedAttempt,
  JobAttempt,
  Prefetch,
} from '../../model/assignment.ts'
import { type ClaimedRow, toAssignment } from '../../model/claim.ts'
import { loadClaimed } from '../../store/load-claimed.ts'
import { type Resynced, resyncWorker } from '../../store/resync-worker.ts'
import { type Begun, type CycleRows, endingsPerCycle, runCycle } from '../../store/run-cycle.ts'
import type { Log } from '../log.ts'
import { workerEnded } from '../operate/worker-control.ts'
import { Offer, type Served } from './claimable-classes.ts'
import { Claiming, type ClaimRequest, type Held } from './claiming.ts'
import { IdleSlots } from './idle-slots.ts'

/**
 * A resync resolves a rejected cycle. A fence that returns at once comes from another server that serves the same
 * worker.
 */
const TRIES = 3
/** The other kinds end only an attempt. */
const ENDS_JOB: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])
const NOTHING: ClaimRequest = { free: 0, freeProcesses: 0 }
const IN_AGREEMENT = { lost: [], undelivered: [] } as const
const ENDS_TWICE = 'DRIFT: a second outcome was reported for a job; the first one stands'
const REFUSED = 'rejected outcomes: this worker no longer held the jobs'

export interface SessionOptions extends Served {
  readonly db: Queryable
  readonly connection: RawQueryable
  readonly log: Log
  /** Whether hints arrive. */
  readonly hears: () => boolean
  /**
   * No response can get lost between session and worker: they share a process, and compare their jobs only after a
   * resync.
   */
  readonly isLocal?: boolean
  /** Throws if the worker may no longer report or take jobs. Called once its jobs are known. */
  readonly checkHeld?: () => void
  /** A resync has reported the worker's jobs and epoch. */
  readonly onResync?: () => void
  /** Performs a resync together with those of other workers. `undefined`: it has to be requested separately. */
  readonly resync?: ((workerId: string) => Promise<Resynced | undefined>) | undefined
}

/** The result of a cycle. */
interface SentCycle extends Pick<CycleAnswer, 'yieldTo'> {
  readonly rows: readonly ClaimedRow[]
  /** False if the model events were not stored and no job was looked for. */
  readonly isWhole: boolean
}

type CatchUpRequest = Pick<CycleRequest, 'running' | 'ended' | 'prefetch'>

/** A request, with the lanes to look at. Absent: all. */
export type SessionRequest = CycleRequest & Pick<ClaimRequest, 'lanes'>

/**
 * One worker as the database sees it: the lanes it serves, the jobs it holds, and whether that picture can be trusted. A worker with
 * access to the database has a session of its own; a server has one for each worker that connects to it.
 *
 * The session is a cache, and the database has the last word. A cycle whose outcome is unknown, that was fenced, that would have given a
 * job a second outcome, or that ended fewer jobs than were sent leaves it out of step. The next cycle then resyncs first: the database says what the worker holds. What the
 * worker does not name was given to it by an answer that it never got, and is given again; what it names and does not hold is lost.
 */
export class WorkerSession {
  readonly offer: Offer
  readonly slots = new IdleSlots()
  readonly claiming: Claiming
  readonly #options: SessionOptions
  readonly #held = new Map<string, Held>()
  /** The held jobs that the database does not know to have started. */
  readonly #assigned = new Set<string>()
  /** Jobs that the worker reported as ended without their outcomes, which come with a later request. */
  readonly #over = new Set<string>()
  #workerId = ''
  #epoch = 0
  /** The newest claim that it knows of. A cycle that finds a newer one is rejected. */
  #known = 0
  #lanes: readonly string[] = []
  /** Lanes that it can serve and in which it has no holding yet. */
  #missing: readonly string[] = []
  #outOfStep = true
  #offerChanged = true
  /** A resync has happened, and the worker's jobs have not been compared with it yet. */
  #resynced = false
  /** When it last held a job, or started. */
  #busyAt = performance.now()
  #done = 0

  constructor(options: SessionOptions) {
    this.#options = options
    this.offer = new Offer(options)
    this.claiming = new Claiming({ ...options, offer: this.offer, slots: this.slots })
  }

  get workerId(): string {
    return this.#workerId
  }

  /** The newest claim that it knows of. */
  get known(): number {
    return this.#known
  }

  /** Jobs held, as the cycles of this session and the last resync have it. */
  get held(): ReadonlyMap<string, Held> {
    return this.#held
  }

  /** Whether it holds jobs that the database has not heard of as started. */
  get holdsAssigned(): boolean {
    return this.#assigned.size > 0
  }

  /** Must be unchanged when an order of this time is carried out later. */
  get epoch(): number {
    return this.#epoch
  }

  /** For how long it has held no job. */
  get idleMs(): number {
    return this.#held.size > 0 ? 0 : performance.now() - this.#busyAt
  }

  /** The next cycle must first ask the database what the worker holds. */
  get isOutOfStep(): boolean {
    return this.#outOfStep
  }

  /** Something happened that this session has not seen. The next cycle asks the database first. */
  markOutOfStep(): void {
    this.#outOfStep = true
  }

  /** Lanes or classes have changed and are read again before the next cycle. */
  noteOffer(): void {
    this.#offerChanged = true
  }

  /** How many jobs the worker has ended since the last call. */
  takeDone(): number {
    const done = this.#done
    this.#done = 0
    return done
  }

  /** Restores the result of `takeDone` when it could not be stored. */
  giveBackDone(jobs: number): void {
    this.#done += jobs
  }

  /** Continues as this incarnation, which holds nothing yet. */
  follow(workerId: string): void {
    for (const id of [...this.#held.keys()]) this.#forget(id)
    this.#workerId = workerId
    this.#outOfStep = true
    this.#known = 0
    this.#done = 0
    this.#busyAt = performance.now()
    this.claiming.startOver()
  }

  /**
   * Records outcomes and takes jobs. Cycles of one worker must not overlap. Repeating a request after a lost response
   * changes nothing twice.
   *
   * @throws {SluiceError} `WORKER_NOT_FOUND` when the worker has been declared dead. Database errors are passed on:
   * the
   *   outcome is then unknown, and the next cycle resolves it.
   */
  async cycle(request: SessionRequest): Promise<CycleAnswer> {
    const recorded = new Set<string>()
    for (let tries = 1; ; tries++) {
      try {
        await this.catchUp(request)
        return await this.#cycle(request, recorded)
      } catch (error) {
        // An error with a SQLSTATE is a response: nothing happened. After any other error, the response may be lost.
        const endsTwice = isSecondOutcome(error)
        if (endsTwice) this.#options.log.error({ worker: this.#workerId, detail: error.detail }, ENDS_TWICE)
        const isRefused = isFenced(error) || endsTwice
        if (isRefused || sqlState(error) === undefined) this.#outOfStep = true
        if (!isRefused || tries === TRIES) throw error
      }
    }
  }

  /**
   * Asks the database what the worker holds, if that is in doubt, without a cycle.
   *
   * @throws {SluiceError} `WORKER_NOT_FOUND` when the worker has been declared dead.
   */
  async catchUp(request: CatchUpRequest): Promise<void> {
    if (this.#offerChanged) await this.refresh()
    if (this.#outOfStep || this.#missing.some((lane) => this.claiming.isDue(lane)))
      await this.#resync(request)
  }

  /**
   * Reads the lanes and classes to serve again. A new lane takes effect with the next cycle.
   *
   * @throws database errors of the first read. Later, the known lanes still apply, and outcomes must not wait for
   * others.
   */
  async refresh(): Promise<void> {
    this.#offerChanged = false
    try {
      await this.offer.read(this.#options.db)
    } catch (error) {
      this.#offerChanged = true
      if (this.offer.readAt === undefined) throw error
      this.#options.log.warn({ error: messageOf(error) }, 'could not read the lanes')
      return
    }
    this.slots.setLimited(this.offer.limitedLanes)
    this.#missing = this.offer.lanesBeyond(this.#lanes)
    if (this.#missing.length > 0) this.#outOfStep = true
  }

  /** Releases slots that have been idle for a while. The worker need not request it. */
  async giveBack(): Promise<void> {
    // Jobs may have been assigned since the caller looked. They start in slots that are idle now.
    if (!this.#outOfStep && this.#assigned.size === 0) await this.#send([], NOTHING, new Set())
  }

  async #cycle(request: SessionRequest, recorded: Set<string>): Promise<CycleAnswer> {
    this.#options.checkHeld?.()
    const { ended, news, prefetch } = request
    const sent = new Map<string, EndedAttempt>()
    for (const each of ended) if (this.#mayEnd(each, prefetch) && !sent.has(each.id)) sent.set(each.id, each)
    const isRefused = (each: EndedAttempt) =>
      sent.get(each.id) !== each && !recorded.has(each.id) && !this.#wasTakenBack(each)
    const refused = sent.size < ended.length ? ended.filter(isRefused) : []
    const compares = this.#options.isLocal !== true || this.#resynced
    const { lost, undelivered } = compares ? this.#compare(request.running(), sent) : IN_AGREEMENT
    // Jobs of an earlier response fill the slots that it requests now.
    const ask = undelivered.length > 0 ? { ...request, free: 0 } : request
    const endings = [...sent.values()].map((each) => this.#asHeld(each))
    // It accepts no assigned jobs any more, so it will start none of those that it does not name.
    const unwanted = prefetch === undefined ? undelivered.filter((id) => this.#assigned.has(id)) : []
    for (const id of unwanted)
      endings.push({ id, attempt: this.#held.get(id)!.attempt, ending: { kind: 'unstarted' } })
    const { rows, isWhole, yieldTo } = await this.#send(endings, ask, recorded)
    const { unload } = this.claiming.planner
    const again = await this.#load(undelivered.filter((id) => !unwanted.includes(id)))
    const assignments = [
      ...again.map((row) => givenAgain(this.#adopt(row))),
      ...rows.map((row) => this.#adopt(row)),
    ]
    this.#resynced = false
    return {
      assignments,
      lost,
      refused: refused.map(({ id, attempt }) => ({ id, attempt })),
      again:
        this.#outOfStep || undelivered.length > 0 || this.claiming.hasMore || (!isWhole && request.free > 0),
      ...(unload.length > 0 && { unload }),
      ...(news !== undefined && { newsTaken: isWhole }),
      ...(yieldTo !== undefined && { yieldTo }),
    }
  }

  #holds({ id, attempt }: JobAttempt): boolean {
    return this.#held.get(id)?.attempt === attempt
  }

  /**
   * Whether an outcome belongs to an attempt that the worker holds. A job that is returned unstarted comes back with
   * the same attempt, perhaps to the same worker, and a newer assignment is not meant.
   */
  #mayEnd(ended: EndedAttempt, prefetch: Prefetch | undefined): boolean {
    if (!this.#holds(ended)) return false
    const { newestClaim = Number.POSITIVE_INFINITY } = prefetch ?? {}
    return ended.ending.kind !== 'unstarted' || this.#held.get(ended.id)!.seq <= newestClaim
  }

  /** A resync has taken back all unstarted jobs, as this outcome requests. Behind a server, it takes none back. */
  #wasTakenBack({ id, ending }: EndedAttempt): boolean {
    return this.#options.isLocal === true && ending.kind === 'unstarted' && !this.#held.has(id)
  }

  /** A job that may have started is not returned as if it had not been assigned. */
  #asHeld(ended: EndedAttempt): EndedAttempt {
    if (ended.ending.kind !== 'unstarted' || this.#assigned.has(ended.id)) return ended
    return { ...ended, ending: { kind: 'returned' } }
  }

  /** Finds jobs that the worker names but does not hold, and jobs that it holds but does not name. */
  #compare(
    running: readonly JobAttempt[],
    sent: ReadonlyMap<string, EndedAttempt>,
  ): { readonly lost: readonly string[]; readonly undelivered: readonly string[] } {
    const kept = new Set(running.filter((each) => this.#holds(each)).map((each) => each.id))
    return {
      lost: running.filter((each) => !kept.has(each.id)).map((each) => each.id),
      undelivered: [...this.#held.keys()].filter((id) => !kept.has(id) && !sent.has(id)),
    }
  }

  /** Outcomes that exceed one statement are sent first, in statements that claim nothing. */
  async #send(ended: readonly EndedAttempt[], ask: ClaimRequest, recorded: Set<string>): Promise<SentCycle> {
    const fits = endingsPerCycle(ended)
    if (fits < ended.length) {
      await this.#send(ended.slice(0, fits), claimingNothing(ask), recorded)
      return this.#send(ended.slice(fits), ask, recorded)
    }
    let answer: CycleRows
    try {
      answer = await this.#run(ended, ask, recorded)
    } catch (error) {
      if (!blamesValues(error) || isSecondOutcome(error) || ended.length === 0) throw error
      await this.#sendOneByOne(ended, claimingNothing(ask), error, recorded)
      return { rows: [], isWhole: false }
    }
    const { resync, yieldTo } = answer.report
    if (resync !== true)
      return { rows: answer.jobs, isWhole: true, ...(yieldTo !== undefined && { yieldTo }) }
    this.#outOfStep = true
    this.#options.log.warn({ worker: this.#workerId, jobs: ended.map(({ id }) => id).slice(0, 20) }, REFUSED)
    return { rows: [], isWhole: true }
  }

  /** An outcome that the database cannot store fails its job instead of delaying the others. */
  async #sendOneByOne(
    ended: readonly EndedAttempt[],
    nothing: ClaimRequest,
    error: unknown,
    recorded: Set<string>,
  ): Promise<void> {
    if (ended.length > 1) {
      for (const each of ended) await this.#send([each], nothing, recorded)
      return
    }
    // If that is rejected, too, nothing is left to try.
    await this.#run([unstorable(ended[0]!, error)], nothing, recorded)
  }

  /** Runs one cycle and learns from it. The worker must hold all of `ended`. */
  async #run(ended: readonly EndedAttempt[], ask: ClaimRequest, recorded: Set<string>): Promise<CycleRows> {
    const asker = { workerId: this.#workerId, lanes: this.#lanes, held: this.#held }
    const begun = this.#begun(ended, ask)
    const claim = await this.claiming.prepare(asker, ended, begun, ask)
    const answer = await runCycle(this.#options.connection, {
      ...claim.arguments,
      workerId: this.#workerId,
      epoch: this.#epoch,
      known: this.#known,
      ended: ended.map((each) => ({ ...each, seq: this.#held.get(each.id)!.seq })),
      begun,
    })
    this.claiming.learn(claim, answer, ask.free)
    if (answer.report.resync !== true)
      this.#done += ended.filter(({ ending }) => ENDS_JOB.has(ending.kind)).length
    for (const { id } of ended) {
      this.#forget(id)
      recorded.add(id)
    }
    for (const { id } of begun) this.#begin(id)
    return answer
  }

  /**
   * Assigned jobs that the worker has started and that go on. What has ended with them has to be in the same cycle. In the slots of those that have ended since
   * it was sent others may run by now, which a resync has given back as started.
   */
  #begun(ended: readonly EndedAttempt[], { prefetch, isPart = false }: ClaimRequest): (JobAttempt & Begun)[] {
    if (isPart || this.#assigned.size === 0) return []
    const over = new Set(ended.map(({ id }) => id))
    const begun: (JobAttempt & Begun)[] = []
    for (const id of this.#assigned) {
      if (over.has(id) || this.#over.has(id) || prefetch?.isWaiting(id) === true) continue
      const { attempt, seq } = this.#held.get(id)!
      begun.push({ id, attempt, seq })
    }
    return begun
  }

  #begin(id: string): void {
    this.#hold(id, { ...this.#held.get(id)!, assigned: false })
  }

  /** Raises the epoch, which fences everything in flight, and adopts what the database reports. */
  async #resync({ running, ended, prefetch }: CatchUpRequest): Promise<void> {
    const { connection, resync } = this.#options
    prefetch?.recall()
    // What has not started may be taken back: it does not run here.
    const begun = ended.filter(({ ending }) => ending.kind !== 'unstarted')
    const held = running()
    const named = [...held, ...begun.map((each) => ({ ...each, ended: true }))].map(
      ({ id, attempt, ended = false }) => ({ id, attempt, ...(ended && { ended }) }),
    )
    const state =
      (await resync?.(this.#workerId)) ??
      (await resyncWorker(connection, this.#workerId, named, this.#options.isLocal === true))
    if (state === undefined) throw workerEnded(this.#workerId)
    this.#epoch = state.epoch
    this.#lanes = state.lanes
    this.#missing = this.offer.lanesBeyond(state.lanes)
    this.claiming.noteResync(this.#missing)
    this.#known = Math.max(0, ...state.running.map((job) => job.seq))
    const theirs = new Map(state.running.map((job) => [job.id, job.attempt]))
    // What can fail comes first, because what is dropped below is reported only once.
    const rows = await this.#load(state.running.filter((each) => !this.#holds(each)).map(({ id }) => id))
    for (const [id, { attempt }] of this.#held) if (theirs.get(id) !== attempt) this.#forget(id)
    for (const { id, seq, assigned } of state.running) {
      const held = this.#held.get(id)
      // A crash may have lost the start of a job, which is then reported again.
      if (held !== undefined) this.#hold(id, { ...held, seq, assigned })
    }
    const assigned = new Set(state.running.filter((job) => job.assigned).map(({ id }) => id))
    for (const row of rows) this.#adopt(row, assigned.has(row[0]!))
    this.#over.clear()
    for (const { id, ended } of held) if (ended === true && this.#held.has(id)) this.#over.add(id)
    this.#outOfStep = false
    this.#resynced = true
    this.#options.onResync?.()
  }

  /** Jobs that run under this worker, as a claim gives them. */
  async #load(ids: readonly string[]): Promise<ClaimedRow[]> {
    if (ids.length === 0) return []
    await this.refresh()
    return loadClaimed(this.#options.connection, this.#workerId, ids)
  }

  #adopt(row: ClaimedRow, assigned = row[14]): Assignment {
    const ofClass = this.offer.classOf(row[1])
    const assignment = toAssignment(row, ofClass)
    const { model } = ofClass
    const { id, attempt, lane, devices } = assignment
    const seq = Number(row[10])
    this.#known = Math.max(this.#known, seq)
    const drawn = devices !== undefined && { drawn: { model, devices } }
    this.#hold(id, { lane, attempt, seq, assigned, ...drawn })
    return assignment
  }

  #hold(id: string, held: Held): void {
    this.#forget(id)
    this.#held.set(id, held)
    if (held.assigned) this.#assigned.add(id)
    else this.slots.started(held.lane)
  }

  #forget(id: string): void {
    const held = this.#held.get(id)
    this.#over.delete(id)
    if (held !== undefined && this.#held.delete(id)) {
      if (!this.#assigned.delete(id)) this.slots.ended(held.lane)
      this.#busyAt = performance.now()
    }
  }
}

/** The worker does not know it yet, and cannot tell how long it has been assigned. */
function givenAgain(assignment: Assignment): Assignment {
  const { prefetched } = assignment
  return prefetched === undefined ? assignment : { ...assignment, prefetched: { ...prefetched, again: true } }
}

/** Jobs that were assigned keep running in the slots in which they were counted. */
function claimingNothing({ prefetch }: ClaimRequest): ClaimRequest {
  const part = { ...NOTHING, isPart: true }
  return prefetch === undefined
    ? part
    : { ...part, prefetch: { ...prefetch, ahead: () => 0, holds: () => false } }
}

/** Recorded for an attempt whose own outcome the database rejects. */
function unstorable({ id, attempt }: EndedAttempt, error: unknown): EndedAttempt {
  const text = `the outcome cannot be stored: ${messageOf(error)}`
  return { id, attempt, ending: { kind: 'failed', error: text } }
}
