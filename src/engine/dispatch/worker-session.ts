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

/** A refusal is lifted by a resync. A fence that comes back at once is another server's that serves the same worker. */
const TRIES = 3
/** The other kinds only end an attempt. */
const ENDS_JOB: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])
const NOTHING: ClaimRequest = { free: 0, freeProcesses: 0 }
const IN_AGREEMENT = { lost: [], undelivered: [] } as const
const ENDS_TWICE = 'DRIFT: a job that has an outcome was to end again; the first outcome stands'
const REFUSED = 'some endings were refused: this worker no longer held the jobs'

export interface SessionOptions extends Served {
  readonly db: Queryable
  readonly connection: RawQueryable
  readonly log: Log
  /** Whether hints arrive. */
  readonly hears: () => boolean
  /** No answer can get lost between session and worker: they share a process, and compare what they hold only after a resync. */
  readonly isLocal?: boolean
  /** Throws when the worker may no longer report or take jobs. Called once it is known what it holds. */
  readonly checkHeld?: () => void
  /** A resync has told what the worker holds, under which epoch. */
  readonly onResync?: () => void
  /** A resync together with those of other workers. `undefined`: it has to be asked for alone. */
  readonly resync?: ((workerId: string) => Promise<Resynced | undefined>) | undefined
}

/** What a cycle brought. */
interface SentCycle extends Pick<CycleAnswer, 'yieldSlots'> {
  readonly rows: readonly ClaimedRow[]
  /** False when the news was not stored and no job was looked for. */
  readonly isWhole: boolean
}

type CatchUpRequest = Pick<CycleRequest, 'running' | 'ended' | 'prefetch'>

/** A request, with the lanes to look at. Left out: all. */
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
  /** Those of them that the database has not heard of as started. */
  readonly #assigned = new Set<string>()
  /** Those that the worker said had ended when it named them, without their endings. They come with a later request. */
  readonly #over = new Set<string>()
  #workerId = ''
  #epoch = 0
  /** The newest claim it knows of: a cycle that finds a newer one is refused. */
  #known = 0
  #lanes: readonly string[] = []
  /** Lanes that it can serve and has no holding in yet. */
  #missing: readonly string[] = []
  #outOfStep = true
  #offerChanged = true
  /** A resync has happened, and the worker has not been compared with it yet. */
  #resynced = false
  /** When it last held a job, or began. */
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

  /** What has to be the same when an order of this moment is carried out later. */
  get epoch(): number {
    return this.#epoch
  }

  /** For how long it has held no job. */
  get idleMs(): number {
    return this.#held.size > 0 ? 0 : performance.now() - this.#busyAt
  }

  /** The next cycle has to ask the database first what the worker holds. */
  get isOutOfStep(): boolean {
    return this.#outOfStep
  }

  /** Something happened that this session was not told: the next cycle asks the database first. */
  markOutOfStep(): void {
    this.#outOfStep = true
  }

  /** Lanes or classes have changed: they are read again before the next cycle. */
  noteOffer(): void {
    this.#offerChanged = true
  }

  /** How many jobs the worker has ended since the last call. */
  takeDone(): number {
    const done = this.#done
    this.#done = 0
    return done
  }

  /** Restores what `takeDone` gave when it could not be stored. */
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
   * Records endings and takes jobs. Cycles of one worker must not overlap. Sending the same again after an answer that did not arrive
   * changes nothing twice.
   *
   * @throws {SluiceError} `WORKER_NOT_FOUND` when the worker has been declared dead. What the database throws is passed on: the
   *   outcome is then unknown, and the next cycle sets it right.
   */
  async cycle(request: SessionRequest): Promise<CycleAnswer> {
    const recorded = new Set<string>()
    for (let tries = 1; ; tries++) {
      try {
        await this.catchUp(request)
        return await this.#cycle(request, recorded)
      } catch (error) {
        // An error with a SQLSTATE is an answer: nothing happened. Any other may have lost the answer.
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
   * Reads again what there is to serve. A lane that is new to this worker takes effect with the next cycle.
   *
   * @throws what the database throws the first time. Later the known lanes still do, and endings must not wait for others.
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

  /** Gives back slots that nothing has run in for a while. The worker need not ask for it. */
  async giveBack(): Promise<void> {
    // Jobs may have been assigned since the caller looked: they start in slots that are idle now.
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
    // What an earlier answer gave it fills the slots it asks for now.
    const ask = undelivered.length > 0 ? { ...request, free: 0 } : request
    const endings = [...sent.values()].map((each) => this.#asHeld(each))
    // It takes no assigned jobs any more, so it will start none of those that it does not name.
    const unwanted = prefetch === undefined ? undelivered.filter((id) => this.#assigned.has(id)) : []
    for (const id of unwanted)
      endings.push({ id, attempt: this.#held.get(id)!.attempt, ending: { kind: 'unstarted' } })
    const { rows, isWhole, yieldSlots } = await this.#send(endings, ask, recorded)
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
      ...(yieldSlots !== undefined && { yieldSlots }),
    }
  }

  #holds({ id, attempt }: JobAttempt): boolean {
    return this.#held.get(id)?.attempt === attempt
  }

  /**
   * Whether an ending is of an attempt that the worker holds. A job that goes back unstarted comes again with the same attempt, perhaps to the same
   * worker: one that it was given since is not meant.
   */
  #mayEnd(ended: EndedAttempt, prefetch: Prefetch | undefined): boolean {
    if (!this.#holds(ended)) return false
    const { newestClaim = Number.POSITIVE_INFINITY } = prefetch ?? {}
    return ended.ending.kind !== 'unstarted' || this.#held.get(ended.id)!.seq <= newestClaim
  }

  /** A resync has taken back all that has not started, as this ending asks. Behind a server it takes nothing back. */
  #wasTakenBack({ id, ending }: EndedAttempt): boolean {
    return this.#options.isLocal === true && ending.kind === 'unstarted' && !this.#held.has(id)
  }

  /** A job that may have started does not go back as if it had not been assigned. */
  #asHeld(ended: EndedAttempt): EndedAttempt {
    if (ended.ending.kind !== 'unstarted' || this.#assigned.has(ended.id)) return ended
    return { ...ended, ending: { kind: 'returned' } }
  }

  /** What the worker names and does not hold, and what it holds and does not name. */
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

  /**
   * Endings that are too much for one statement go out first, in statements that claim nothing.
   */
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
    const { resync, yield: yieldSlots } = answer.report
    if (resync !== true)
      return { rows: answer.jobs, isWhole: true, ...(yieldSlots !== undefined && { yieldSlots }) }
    this.#outOfStep = true
    this.#options.log.warn({ worker: this.#workerId, jobs: ended.map(({ id }) => id).slice(0, 20) }, REFUSED)
    return { rows: [], isWhole: true }
  }

  /** An ending that the database cannot store fails its job instead of holding up the others. */
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
    // Should that be refused too, nothing would be left to try.
    await this.#run([unstorable(ended[0]!, error)], nothing, recorded)
  }

  /** One cycle, and what it teaches. All of `ended` must be held. */
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

  /** Raises the epoch, which fences whatever is still under way, and takes over what the database says. */
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
    // What can fail comes first: what is forgotten below is reported only once.
    const rows = await this.#load(state.running.filter((each) => !this.#holds(each)).map(({ id }) => id))
    for (const [id, { attempt }] of this.#held) if (theirs.get(id) !== attempt) this.#forget(id)
    for (const { id, seq, assigned } of state.running) {
      const held = this.#held.get(id)
      // A crash may have forgotten that a job has started: that is reported again.
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

/** The worker has not heard of it yet, and cannot tell for how long it has been assigned. */
function givenAgain(assignment: Assignment): Assignment {
  const { prefetched } = assignment
  return prefetched === undefined ? assignment : { ...assignment, prefetched: { ...prefetched, again: true } }
}

/** Jobs that were assigned keep running in the slots that they were counted in. */
function claimingNothing({ prefetch }: ClaimRequest): ClaimRequest {
  const part = { ...NOTHING, isPart: true }
  return prefetch === undefined
    ? part
    : { ...part, prefetch: { ...prefetch, ahead: () => 0, holds: () => false } }
}

/** What is recorded of an attempt whose own outcome the database refuses. */
function unstorable({ id, attempt }: EndedAttempt, error: unknown): EndedAttempt {
  const text = `the outcome cannot be stored: ${messageOf(error)}`
  return { id, attempt, ending: { kind: 'failed', error: text } }
}
