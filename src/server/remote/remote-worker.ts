import type { Queryable, RawQueryable } from '../../db/database.ts'
import { WorkerSession } from '../../engine/dispatch/worker-session.ts'
import type { Log } from '../../engine/log.ts'
import type { CycleAnswer, JobAttempt } from '../../model/assignment.ts'
import { RETURN_IDLE_SLOTS_AFTER_MS } from '../../model/limits.ts'
import { allows, checkLaneScope } from '../../model/run-scope.ts'
import type { DoneJobs } from '../../store/add-jobs-done.ts'
import type { HeartbeatReply } from '../../store/heartbeat.ts'
import type { StoredWorker } from '../../store/load-workers.ts'
import type { Resynced } from '../../store/resync-worker.ts'
import { IdlePoll, type IdleWorker, namedBy, type RemoteCycle, saysNothing } from './idle-poll.ts'
import type { IdlePolls } from './idle-polls.ts'
import { prefetchOf, RECALL, RecallFirst, type RemoteAnswer, seenBy } from './prefetch.ts'
import type { Semaphore } from './semaphore.ts'

/** The answer that said it may have been lost. */
const UNLOAD_AGAIN_MS = 2000

export interface WaitingCycle extends RemoteCycle {
  readonly waitMs: number
  /** Ask the database what the worker holds, whatever this server believes. */
  readonly resync: boolean
  /** Fails when the caller may take no jobs any more. Asked before a poll that has waited looks for some. */
  readonly checkRight: () => Promise<void>
}

/**
 * A worker that speaks to this server.
 *
 * Everything here is a cache. Another server that the worker turns to asks the database; this one is then refused its next
 * cycle and asks too.
 */
export class RemoteWorker implements IdleWorker {
  readonly id: string
  readonly name: string
  readonly keyId: string | null
  readonly tasks: readonly string[]
  readonly capacity: number
  readonly pool: string | null
  readonly rank: number
  readonly hasPooled: boolean
  /** What nobody finds for one worker that offers devices may be there for another, where its model lies. */
  get likeness(): string {
    const likeness = `${this.#likeness} ${this.#lanes.join()}`
    return this.offersDevices ? `${this.id} ${likeness}` : likeness
  }
  /** Patterns of the lanes that its key allows. */
  #lanes: readonly string[] = ['*']
  readonly #likeness: string
  offersDevices = false
  /** When it was last told to unload what, by model and device. */
  readonly #unloadTold = new Map<string, number>()
  draining = false
  usedAt = performance.now()
  readonly session: WorkerSession
  /** Lanes of what it ran when this server first heard of it: until its first cycle here nothing else is known. */
  readonly #lanesBefore: readonly string[]
  readonly #idlePolls: IdlePolls
  readonly #returns: Semaphore
  #last: Promise<unknown> = Promise.resolve()
  #giveBack: NodeJS.Timeout | undefined
  #offer: string | undefined
  #ordersTold: number
  /** The hints about lanes and slots as of its last cycle. */
  #slotHints: number
  /** The last poll brought nothing until its time was up: the same question need not be asked anew. */
  #rested: (Pick<RemoteCycle, 'free' | 'freeProcesses'> & { readonly readyHints: number }) | undefined

  /**
   * @param parts.resync Asks what a worker holds together with others that come.
   * @param parts.returns Lets a few of those that come or come back look at a time.
   */
  constructor(
    worker: StoredWorker,
    parts: {
      readonly idlePolls: IdlePolls
      readonly db: Queryable
      readonly cycles: RawQueryable
      readonly resync: (workerId: string) => Promise<Resynced | undefined>
      readonly returns: Semaphore
      readonly log: Log
      /** Whether hints arrive. */
      readonly hears: () => boolean
    },
  ) {
    const { idlePolls, db, cycles, resync, log, hears } = parts
    this.id = worker.id
    this.name = worker.name
    this.keyId = worker.keyId
    this.tasks = worker.tasks
    this.capacity = worker.capacity
    this.pool = worker.pool
    this.rank = worker.rank
    this.hasPooled = worker.pooled.length > 0
    const { tasks, labels, pooled } = worker
    this.#likeness = JSON.stringify([[...tasks].sort(), Object.entries(labels).sort(), [...pooled].sort()])
    this.#idlePolls = idlePolls
    this.#returns = parts.returns
    this.#ordersTold = idlePolls.ordersTold
    this.#slotHints = idlePolls.slotHints
    this.#lanesBefore = worker.heldLanes
    this.session = new WorkerSession({
      ...{ db, connection: cycles, tasks, labels, processTasks: new Set(pooled), resync, log, hears },
      checkHeld: () => this.#checkHeld(),
    })
    this.session.follow(worker.id)
  }

  noteOffer(): void {
    this.#rested = undefined
    this.session.noteOffer()
  }

  /**
   * From now on it takes jobs of these lanes only.
   *
   * @throws {SluiceError} `FORBIDDEN` where it runs one of another lane: its key was narrowed meanwhile.
   */
  limitLanes(patterns: readonly string[]): void {
    if (patterns.join() !== this.#lanes.join()) this.#rested = undefined
    this.#lanes = patterns
    this.session.claiming.mayServe = (lane) => allows(patterns, lane)
    this.#checkHeld()
  }

  /** What it was given before its key was narrowed it neither reports nor keeps: once it is silent, others run it. */
  #checkHeld(): void {
    const held = [...this.session.held.values()].map(({ lane }) => lane)
    for (const lane of this.session.isOutOfStep ? [...held, ...this.#lanesBefore] : held)
      checkLaneScope(this.#lanes, lane, this.keyId ?? '')
  }

  /**
   * Records endings, takes jobs, and where there is nothing to tell waits for something.
   *
   * @param onGone Gives what is to be called when the client has gone.
   */
  async cycle(request: WaitingCycle, onGone: (gone: () => void) => void): Promise<RemoteAnswer> {
    this.usedAt = performance.now()
    // Only the answer to its newest request counts for the worker.
    this.#idlePolls.end(this.id)
    if (request.resync) this.session.markOutOfStep()
    if (this.#mustRecall(request)) return RECALL
    const { readyHints } = this.#idlePolls
    if (this.#mayRest(request)) return this.#wait(request, readyHints, onGone)
    const waits = request.waitMs > 0 && request.ended.length === 0 && request.news === undefined
    // One that comes with nothing and holds nothing is looked for with its like: of 500 that come at once, one looks.
    if (waits && namedBy(request).length === 0 && !this.offersDevices && this.session.isOutOfStep) {
      await this.#inTurn(() => this.session.catchUp(this.#toSession(request)))
      if (this.session.held.size === 0) return this.#wait(request, undefined, onGone)
    }
    const answer = await this.look(request)
    if (!waits || !saysNothing(answer)) return answer
    return this.#wait(request, readyHints, onGone)
  }

  /** One cycle after the other. */
  look(request: RemoteCycle): Promise<RemoteAnswer> {
    this.#rested = undefined
    return this.#inTurn(async () => {
      try {
        const cycle = () => this.session.cycle(this.#toSession(request))
        const isInStep = !this.session.isOutOfStep
        if (!isInStep) await this.session.catchUp(this.#toSession(request))
        const answer = this.#withoutRepeats(await (isInStep ? cycle() : this.#returns.pass(cycle)))
        return request.prefetch === undefined ? answer : { ...answer, seen: seenBy(this.session) }
      } catch (error) {
        if (error instanceof RecallFirst) return RECALL
        throw error
      }
    })
  }

  /** Takes back what is assigned to it while its main loop is blocked. A cycle that is under way comes first: it may assign more. */
  async handBack(work: () => Promise<void>): Promise<void> {
    await this.#inTurn(async () => {
      await work()
      this.session.markOutOfStep()
    })
  }

  /** Whether something has happened to lanes or slots since its last cycle, and it has jobs that may have to go back because of it. */
  #mustRecall({ prefetch }: WaitingCycle): boolean {
    const { slotHints } = this.#idlePolls
    const hasNew = slotHints !== this.#slotHints
    this.#slotHints = slotHints
    return hasNew && prefetch !== undefined && prefetch.waiting.length > 0
  }

  #toSession(request: RemoteCycle) {
    const { ended, running, free, freeProcesses, limits, news, lanes, prefetch } = request
    return {
      ...{ ended, free, freeProcesses, lanes, running: () => namedBy(request) },
      ...(limits !== undefined && { limits }),
      ...(news !== undefined && { news }),
      ...(prefetch !== undefined && { prefetch: prefetchOf(prefetch, running, this.session) }),
    }
  }

  /** What has to be unloaded is named until it is gone. A worker that unloads it need not hear it with every question. */
  #withoutRepeats(answer: CycleAnswer): CycleAnswer {
    const { unload = [] } = answer
    if (unload.length === 0) {
      this.#unloadTold.clear()
      return answer
    }
    const now = performance.now()
    const fresh = unload.filter(({ model, device }) => {
      const key = `${model} ${device}`
      const isFresh = now - (this.#unloadTold.get(key) ?? Number.NEGATIVE_INFINITY) > UNLOAD_AGAIN_MS
      if (isFresh) this.#unloadTold.set(key, now)
      return isFresh
    })
    return { ...answer, unload: fresh }
  }

  noteDevices(count: number): void {
    this.offersDevices = count > 0
  }

  /** What a heartbeat tells of leases and of what there is to serve. */
  noteBeat(beat: HeartbeatReply): void {
    this.usedAt = performance.now()
    this.draining = beat.draining
    this.session.claiming.order.notePeers(beat.peers, beat.ahead)
    if (beat.resync || [...this.session.offer.polls.keys()].some((lane) => !beat.lanes.includes(lane))) {
      this.#rested = undefined
      this.session.markOutOfStep()
    }
    // Its next question names what it runs.
    if (beat.resync) this.#idlePolls.end(this.id)
    if (this.#offer !== beat.offer) {
      this.#offer = beat.offer
      this.#slotHints = -1
      this.noteOffer()
    }
  }

  /** Tells what a worker of a pool has done since the last time. What could not be noted is told again. */
  async noteDone(note: (done: DoneJobs) => Promise<void>): Promise<void> {
    const jobs = this.pool === null ? 0 : this.session.takeDone()
    if (jobs === 0) return
    try {
      await note({ workerId: this.id, jobs })
    } catch (error) {
      this.session.giveBackDone(jobs)
      throw error
    }
  }

  close(): void {
    clearTimeout(this.#giveBack)
    this.#idlePolls.end(this.id)
  }

  async #wait(
    request: WaitingCycle,
    readyHints: number | undefined,
    onGone: (gone: () => void) => void,
  ): Promise<RemoteAnswer> {
    const poll = new IdlePoll(this, request, request.waitMs, request.checkRight)
    onGone(() => poll.end())
    const answer = await this.#idlePolls.wait(poll, readyHints, this.#ordersTold)
    this.#ordersTold = this.#idlePolls.ordersTold
    this.draining = answer.orders?.draining ?? this.draining
    if (answer.assignments.length === 0 && !answer.again && request.limits === undefined) {
      const { free, freeProcesses } = request
      this.#rested = { readyHints: this.#idlePolls.readyHints, free, freeProcesses }
    }
    return answer
  }

  /** Whether everything is as it was when the last poll brought nothing. */
  #mayRest(request: WaitingCycle): boolean {
    const rested = this.#rested
    return (
      rested !== undefined &&
      rested.readyHints === this.#idlePolls.readyHints &&
      request.waitMs > 0 &&
      !request.resync &&
      request.ended.length === 0 &&
      request.news === undefined &&
      request.limits === undefined &&
      request.free <= rested.free &&
      request.freeProcesses <= rested.freeProcesses &&
      this.#holdsExactly(namedBy(request))
    )
  }

  /** Whether the worker runs just what it holds, as far as is known here. */
  #holdsExactly(running: readonly JobAttempt[]): boolean {
    const { held, isOutOfStep } = this.session
    return (
      !isOutOfStep &&
      running.length === held.size &&
      running.every((each) => held.get(each.id)?.attempt === each.attempt)
    )
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    clearTimeout(this.#giveBack)
    const turn = this.#last.then(work)
    this.#last = turn.catch(() => {})
    try {
      return await turn
    } finally {
      this.#giveBackLater()
    }
  }

  #giveBackLater(): void {
    clearTimeout(this.#giveBack)
    // Idle slots may be those in which it starts what it is assigned. It reports so soon.
    if (!this.session.slots.holdsIdle || this.session.holdsAssigned) return
    this.#giveBack = setTimeout(() => {
      // What fails here is found out by the next cycle.
      this.#inTurn(() => this.session.giveBack()).catch(() => this.session.markOutOfStep())
    }, RETURN_IDLE_SLOTS_AFTER_MS)
    this.#giveBack.unref()
  }
}
