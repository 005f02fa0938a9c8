import { hasCode, messageOf } from '../errors.ts'
import type { Assignment, CycleAnswer, EndedAttempt, NamedJob, WorkerOrders } from '../model/assignment.ts'
import { LOOK_AGAIN_MS } from '../model/limits.ts'
import { RepeatedWarning } from '../repeated-warning.ts'
import { AnswerTrust } from './answer-trust.ts'
import type { Attempts } from './attempts.ts'
import type { JobSource, SourceBeat } from './job-source.ts'
import type { ModelKeeper } from './models/model-keeper.ts'
import { Prefetcher } from './prefetcher.ts'
import type { WorkerLog } from './worker-log.ts'

export interface DispatcherOptions {
  readonly name: string
  readonly source: JobSource
  readonly attempts: Attempts
  readonly models: ModelKeeper
  /** How many pool processes are free. */
  readonly freeProcesses: () => number
  /** Jobs at once; 0: no limit of its own. */
  readonly capacity: number
  /** Jobs taken in one cycle, at most. */
  readonly cycleMax: number
  readonly log: WorkerLog
  /** Tasks whose jobs may be assigned before there is a slot for them. */
  readonly prefetchable: ReadonlySet<string>
  /** How the cores of the host are divided may have changed. */
  readonly onSharesChanged: () => void
  /** An operator wants the worker to end. May be called again and again. */
  readonly onStopAsked: () => void
  /** The worker was declared dead and is another one now. */
  readonly onStartedOver: () => void
}

const RETRY_MS = 500
/** While prefetched jobs keep its slots in use, a worker gathers endings for this long before it reports them: a cycle costs as much for one as for ten. */
const GATHER_MS = 5

const LATE = 'jobs arrived while no heartbeat got through; they start only after the database confirms them'
const DECLARED_DEAD = 'this worker was declared dead; its late results are rejected and it registers again'

/**
 * Gets a worker its jobs and reports their endings, whatever the source.
 *
 * One cycle at a time: it reports what has ended since the last one and asks for as many jobs as there are free slots. The next
 * cycle follows at once while there is something to report or more to take; otherwise a hint, an ending or a timer starts it.
 *
 * What the worker holds is in five places, and nowhere else: answers that it has not acted on (`#received`), jobs that start at once (`#starting`), jobs that wait
 * for one of its slots (`Prefetcher`), jobs that run (`Attempts`) and endings that are not recorded yet (`#ended`).
 *
 * This file is longer than 300 lines because everything that depends on the mode, on the cycle under way and on doubt is decided here, where one decision can be
 * compared with another. What can be decided without them is in `Prefetcher`, `Attempts` and `AnswerTrust`.
 */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #source: JobSource
  readonly #attempts: Attempts
  readonly #trust: AnswerTrust
  readonly #outage: RepeatedWarning
  /** Jobs of this worker that start now. A worker asks for no more than its free slots, so all of them fit. */
  readonly #starting: Assignment[] = []
  /** Jobs that start as slots of their lane become free. */
  readonly #prefetcher: Prefetcher
  #ended: EndedAttempt[] = []
  /** Answers that came by themselves and have not been acted on. */
  readonly #received: CycleAnswer[] = []
  #mode: 'new' | 'taking' | 'finishing' | 'handing back' = 'new'
  #draining = false
  #shares: string | null = null
  #cycling: Promise<void> | undefined
  #again = false
  /** False after a cycle that failed. */
  #reached = true
  #lookAgain = LOOK_AGAIN_MS.length
  /** The next cycle is a poll: nothing has happened. */
  #polls = false
  #timer: NodeJS.Timeout | undefined
  /** Ends the time in which endings are gathered. */
  #gathering: NodeJS.Timeout | undefined
  /** No heartbeat gets through, or none has yet: what it claimed now it might have to give up at once. */
  #silent = true
  /** What this worker holds is in doubt. */
  #resync = false

  constructor(options: DispatcherOptions) {
    this.#options = options
    this.#source = options.source
    this.#attempts = options.attempts
    this.#trust = new AnswerTrust(options.source)
    const { source, attempts, prefetchable } = options
    const { assignedCells } = source
    this.#prefetcher = new Prefetcher({
      ...{ source, assignedCells, attempts, prefetchable },
      mayStart: () => this.#mayTake(),
      onHandedBack: (ended) => {
        this.#ended.push(...ended)
        // Others may start them: this is not gathered.
        if (this.#mode !== 'new') void this.#cycle()
      },
      onDoubt: () => {
        this.#resync = true
        this.#again = true
        // Not at once: the prefetcher is taking jobs out. A cycle that is sent now would take out the same jobs, or overlap the one that takes them out.
        queueMicrotask(() => this.report())
      },
    })
    this.#outage = new RepeatedWarning(options.log, 'cycles succeed again')
  }

  open(): Promise<void> {
    return this.#source.open({
      wake: (again) => this.wake(again),
      answered: (answer, ageMs) => this.#noteAnswer(answer, ageMs),
      beat: (beat) => this.#noteBeat(beat),
      recall: () => this.#prefetcher.handBack(),
      silent: (silentMs, unansweredMs) => this.#noteSilence(silentMs, unansweredMs),
    })
  }

  /** Begins to take jobs. */
  start(): void {
    this.#mode = 'taking'
    this.wake(false)
  }

  /** Takes nothing new. Resolves when the source knows, and what it had already given has started. */
  async stopTaking(): Promise<void> {
    this.#mode = 'finishing'
    clearTimeout(this.#timer)
    this.#prefetcher.handBack()
    // The cycle under way may still bring jobs. One follows, so that a source that has been asked for jobs hears that none are wanted.
    await (this.#reached ? this.#cycle() : this.#cycling)
  }

  /** Reports all endings. From now on a job that turns up, because the answer to its claim was lost, goes back. */
  async finish(): Promise<void> {
    this.#mode = 'handing back'
    const isDone = () => this.#reached && this.#ended.length + this.#received.length === 0
    for (let tries = 0; !isDone() && tries < 5; tries++) {
      if (tries > 0) await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
      await this.#cycle()
    }
  }

  /** Resolves when no cycle is under way; none follows. The source hands back what arrives from now on. */
  async close(): Promise<void> {
    this.#mode = 'new'
    await this.#cycling
    clearTimeout(this.#timer)
    clearTimeout(this.#gathering)
    this.#prefetcher.close()
    this.#received.length = 0
  }

  /** @param again Jobs may follow within milliseconds. */
  wake(again: boolean): void {
    // Workers that come first look for what follows the hint.
    if (again) this.#lookAgain = this.#source.isBehind ? LOOK_AGAIN_MS.length - 1 : 0
    if (this.#mode === 'taking') void this.#cycle()
  }

  /** An attempt is over. It is reported with the next cycle. */
  note(ended: EndedAttempt): void {
    this.#ended.push(ended)
    this.#prefetcher.fill()
  }

  /** Runs the cycle that reports what has been noted, unless more may be gathered first or one is under way: then that one goes round once more. */
  report(): void {
    if (this.#cycling !== undefined || this.#mode === 'new') return
    if (this.#mayGather()) this.#gathering ??= setTimeout(() => void this.#cycle(), GATHER_MS)
    else void this.#cycle()
  }

  /** Whether endings may wait a little for others: no slot is idle meanwhile. */
  #mayGather(): boolean {
    return this.#mode === 'taking' && this.#prefetcher.keepsSlotsBusy
  }

  /** This worker cannot start jobs. Takes none until somebody brings it back. */
  breakDown(why: string): void {
    // As the next heartbeat says. Whoever brings it back sooner reports only that.
    this.#draining = true
    this.#prefetcher.handBack()
    this.#source.broken(why)
  }

  /** Runs cycles until there is nothing to do; a call during one makes it go round once more. */
  #cycle(): Promise<void> {
    this.#again = true
    // Begun in a microtask: a job of an answer that came by itself may end at once and report so, and must find that a cycle is under way. Two that overlap
    // take what one was given for lost, and run it twice.
    this.#cycling ??= Promise.resolve()
      .then(() => this.#cycleUntilIdle())
      .finally(() => {
        this.#cycling = undefined
        // What came after the last round began its way out would otherwise wait for the poll.
        if (this.#reached && this.#again) void this.#cycle()
        else {
          this.#rest()
          if (this.#reached && this.#ended.length > 0) this.report()
        }
      })
    return this.#cycling
  }

  async #cycleUntilIdle(): Promise<void> {
    clearTimeout(this.#timer)
    clearTimeout(this.#gathering)
    this.#gathering = undefined
    this.#reached = true
    while (this.#again) {
      this.#again = false
      const received = this.#received.shift()
      if (received !== undefined) {
        await this.#act(received)
        this.#again = true
        continue
      }
      // The heartbeat thread may have taken jobs back since the last answer: only the database knows which of them are still this worker's.
      this.#resync = this.#prefetcher.begin(this.#resync)
      const free = this.#free()
      const answer = await this.#exchange(free)
      if (answer === undefined) {
        this.#reached = false
        this.#lookAgain = LOOK_AGAIN_MS.length
        this.#timer = setTimeout(() => this.wake(false), RETRY_MS * (0.5 + Math.random()))
        return
      }
      await this.#act(answer)
      if (answer.again || (this.#ended.length > 0 && !this.#mayGather())) this.#again = true
      if (free > 0 && answer.assignments.length >= free && this.#free() > 0) this.#again = true
    }
  }

  /** One cycle with the source. `undefined`: it failed, and nothing of it is lost. */
  async #exchange(free: number): Promise<CycleAnswer | undefined> {
    const { models, freeProcesses } = this.#options
    const ended = this.#ended
    this.#ended = []
    const news = models.takeNews()
    const limits = this.#attempts.limits()
    const prefetcher = this.#prefetcher
    const resync = this.#resync
    const poll = this.#polls && ended.length === 0
    this.#polls = false
    this.#resync = false
    const sentAt = performance.now()
    try {
      const answering = this.#source.cycle({
        ...{ ended, free, poll, resync, freeProcesses: freeProcesses(), running: () => this.#running() },
        ...(limits !== undefined && { limits }),
        ...(news !== undefined && { news }),
        prefetch: prefetcher.request,
      })
      // Once the cycle is on its way.
      setImmediate(() => prefetcher.startAll())
      const answer = await answering
      this.#outage.worked()
      models.told(answer.newsTaken === true)
      // News that was not taken goes with the next cycle that has a reason of its own.
      if (models.hasNews && (news === undefined || answer.newsTaken === true)) this.#again = true
      this.#ended = [...(answer.unsent ?? []), ...this.#ended]
      prefetcher.noteAnswer(performance.now() - sentAt)
      const isInDoubt = prefetcher.isInDoubt
      // The jobs that it assigns are dropped, and come again if the resync finds that they are still this worker's.
      this.#resync ||= isInDoubt
      return this.#unlessLate(isInDoubt ? { ...answer, again: true } : answer, performance.now() - sentAt)
    } catch (error) {
      models.told(false)
      this.#resync ||= resync
      if (hasCode(error, 'WORKER_NOT_FOUND')) return this.#startOver(ended)
      this.#ended = [...ended, ...this.#ended]
      const code = error instanceof Error && 'code' in error ? { code: error.code } : {}
      const facts = { worker: this.#options.name, error: messageOf(error), ...code }
      this.#outage.failed(facts, 'cycle failed; its report will be sent again')
      return undefined
    }
  }

  /** What the worker holds, less the endings that go with this cycle. */
  #running(): NamedJob[] {
    const received = this.#received.flatMap(({ assignments }) => assignments)
    const starting = [...received, ...this.#starting].map(({ id, attempt }) => ({ id, attempt }))
    const ended = this.#ended.map(({ id, attempt }) => ({ id, attempt, ended: true }))
    return [...this.#attempts.named(), ...this.#prefetcher.named(), ...starting, ...ended]
  }

  /** Others run its jobs now. Everything it has is lost; it continues as a new worker. */
  async #startOver(ended: readonly EndedAttempt[]): Promise<CycleAnswer | undefined> {
    const { name: worker, log } = this.#options
    const lost = this.#attempts.named().map(({ id }) => id)
    log.error({ worker, lost: lost.length, refused: ended.length }, DECLARED_DEAD)
    this.#prefetcher.dropAll()
    try {
      await this.#source.startOver([...new Set([...ended.map(({ id }) => id), ...lost])])
    } catch (error) {
      this.#ended = [...ended, ...this.#ended]
      log.warn({ worker, error: messageOf(error) }, 'could not register again')
      return undefined
    }
    this.#received.length = 0
    this.#resync = false
    this.#options.onStartedOver()
    return { assignments: [], lost, refused: [], again: true }
  }

  /** Does what an answer says. Resolves when short jobs it gave have ended, so that the next cycle can report them. */
  async #act(answer: CycleAnswer): Promise<void> {
    this.#options.models.unload(answer.unload ?? [])
    this.#attempts.lose(answer.lost)
    this.#prefetcher.lose(answer.lost)
    this.#prefetcher.yieldTo(answer.yieldTo)
    this.#accept(this.#unknown(answer.assignments))
    // A task that ends at once would start the prefetched jobs, one after the other, before the next cycle is sent.
    this.#prefetcher.keepAllWhile(() => {
      this.#startGiven()
      if (answer.orders !== undefined) this.#obey(answer.orders)
    })
    if (answer.assignments.length > 0) this.#lookAgain = 0
    if (!this.#prefetcher.startSome(this.#ended.length)) return
    if (answer.assignments.length > 0) await new Promise((resolve) => setImmediate(resolve))
  }

  /** Two answers may give the same job. */
  #unknown(given: readonly Assignment[]): readonly Assignment[] {
    if (given.length === 0) return given
    const ended = new Map(this.#ended.map(({ id, attempt }) => [id, attempt]))
    return given.filter(
      ({ id, attempt }) =>
        !this.#attempts.has(id, attempt) && ended.get(id) !== attempt && !this.#prefetcher.has(id),
    )
  }

  /** Keeps what it was given until it starts. What it may not start any more goes back. */
  #accept(given: readonly Assignment[]): void {
    const now = performance.now()
    for (const assignment of given) {
      if (assignment.prefetched === undefined) this.#starting.push(assignment)
      else this.#prefetcher.accept(assignment, now)
    }
  }

  /** Starts the jobs that have a slot. Those that wait for one are started by `Prefetcher`. */
  #startGiven(): void {
    const begunAt = performance.now()
    for (const assignment of this.#starting.splice(0)) {
      const { id, attempt } = assignment
      // The process may have stood still since the one before: a resync gives this one again, if it is still this worker's.
      if (this.#trust.isTooOld(performance.now() - begunAt, this.#resync)) this.#resync = true
      else if (this.#mode === 'handing back') this.#ended.push({ id, attempt, ending: { kind: 'returned' } })
      else {
        this.#prefetcher.grant(assignment.lane)
        this.#attempts.start(assignment)
      }
    }
  }

  /** Sets the timer that ends the rest, unless a failed cycle has set one. */
  #rest(): void {
    if (this.#mode !== 'taking' || !this.#reached) return
    clearTimeout(this.#timer)
    const poll = this.#source.pollMs
    let wait = Math.min(poll, this.#source.lookAgainMs, this.#attempts.starts.nextMs + 1)
    if (this.#lookAgain < LOOK_AGAIN_MS.length && this.#free() > 0)
      wait = Math.min(wait, LOOK_AGAIN_MS[this.#lookAgain++]!)
    this.#timer = setTimeout(() => {
      this.#polls = wait === poll
      this.wake(false)
    }, wait)
  }

  #mayTake(): boolean {
    return this.#mode === 'taking' && !this.#silent && !this.#draining && !this.#attempts.starts.isBroken
  }

  /** How many jobs it can take now. */
  #free(): number {
    const { capacity, cycleMax } = this.#options
    if (!this.#mayTake()) return 0
    const held = this.#attempts.size + this.#starting.length + this.#prefetcher.reserved
    return capacity === 0 ? cycleMax : Math.min(cycleMax, capacity - held)
  }

  #noteAnswer(answer: CycleAnswer, ageMs: number): void {
    const { orders, ...rest } = this.#unlessLate(answer, ageMs)
    if (orders !== undefined) this.#obey(orders)
    const { assignments, lost, again, unload = [] } = rest
    if (this.#mode === 'new') return
    if (assignments.length + lost.length + unload.length === 0 && !again) return
    this.#received.push(rest)
    this.wake(false)
  }

  /**
   * The jobs of an answer that was on its way while heartbeats were missed are not started: their leases may have ended, and others
   * run them. Those that are still this worker's are given again after the resync.
   */
  #unlessLate(answer: CycleAnswer, ageMs: number): CycleAnswer {
    if (!this.#trust.isTooOld(ageMs, this.#resync) || answer.assignments.length === 0) return answer
    this.#options.log.warn({ jobs: answer.assignments.map(({ id }) => id) }, LATE)
    this.#resync = true
    return { ...answer, assignments: [], again: true }
  }

  #noteBeat(beat: SourceBeat | null): void {
    this.#trust.noteBeat()
    const isInDoubt = beat === null || beat.resync || !this.#attempts.areIn(beat.lanes)
    const wakes = this.#silent || isInDoubt
    this.#silent = false
    this.#resync ||= isInDoubt
    // Other workers may have what is assigned to this one. A cycle that is under way must not delay that none of it starts.
    if (isInDoubt) this.#prefetcher.dropAll()
    if (wakes) this.wake(false)
    if (beat === null) return
    if (beat.shares !== this.#shares) {
      this.#shares = beat.shares
      this.#options.onSharesChanged()
    }
    this.#obey(beat)
  }

  /** Stops what runs under leases that can no longer be trusted, a heartbeat before another worker may take the jobs. */
  #noteSilence(silentMs: number, unansweredMs: number): void {
    const lanes = this.#trust.noteSilence(silentMs, unansweredMs)
    if (lanes.size === 0) return
    this.#silent = true
    this.#attempts.abandon(lanes, silentMs)
    // Whether they are still this worker's is for the database to say.
    if (this.#prefetcher.dropAll()) this.#resync = true
  }

  #obey({ cancels, draining, stopping }: WorkerOrders): void {
    this.#attempts.cancel(cancels)
    for (const id of cancels) this.#prefetcher.cancel(id)
    if (this.#draining !== draining) {
      this.#draining = draining
      if (draining) this.#prefetcher.handBack()
      // Whoever brings back a broken worker has repaired it. If not, three jobs tell.
      if (!draining) this.#attempts.starts.mend()
      this.wake(false)
    }
    if (stopping) this.#options.onStopAsked()
  }
}
