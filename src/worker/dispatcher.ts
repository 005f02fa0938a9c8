import { hasCode, messageOf } from '../errors.ts'
import type { Assignment, CycleAnswer, EndedAttempt, JobAttempt, WorkerOrders } from '../model/assignment.ts'
import { RepeatedWarning } from '../repeated-warning.ts'
import type { Attempts } from './attempts.ts'
import type { JobSource, SourceBeat } from './job-source.ts'
import type { ModelKeeper } from './models/model-keeper.ts'
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
  /** How the cores of the host are divided may have changed. */
  readonly onSharesChanged: () => void
  /** An operator wants the worker to end. May be called again and again. */
  readonly onStopAsked: () => void
  /** The worker was declared dead and is another one now. */
  readonly onStartedOver: () => void
}

/** Looks again this long after a hint that came to nothing: the commit it announced may be a moment behind it. */
const LOOK_AGAIN_MS = [2, 4, 8, 16, 32]
const RETRY_MS = 500
/** After so many missed heartbeats an answer may be too old to act on, and connections may be dead. One beat may just be slow. */
const DOUBTFUL_BEATS = 2

const LATE =
  'jobs came when no heartbeat got through any more; they are not started before the database was asked'
const DECLARED_DEAD = 'this worker was declared dead; its late results are refused and it registers anew'

/**
 * Gets a worker its jobs and reports their endings, whatever the source.
 *
 * One cycle at a time: it reports what has ended since the last one and asks for as many jobs as there are free slots. The next
 * cycle follows at once while there is something to report or more to take; otherwise a hint, an ending or a timer starts it.
 *
 * What the worker holds is in three places, and nowhere else: jobs that have not started (`#assigned`), jobs that run (`Attempts`)
 * and endings that are not recorded yet (`#ended`).
 */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #source: JobSource
  readonly #attempts: Attempts
  readonly #outage: RepeatedWarning
  /** Jobs of this worker that have not started. A worker asks for no more than its free slots, so all of them fit. */
  readonly #assigned: Assignment[] = []
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
  /** No heartbeat gets through, or none has yet: what it claimed now it might have to give up at once. */
  #silent = true
  /** Heartbeats were missed: an answer that was on its way meanwhile is too old. */
  #missedBeats = false
  /** Nothing came back for a while: connections may be dead. */
  #distrusts = false
  /** What this worker holds is in doubt. */
  #resync = false

  constructor(options: DispatcherOptions) {
    this.#options = options
    this.#source = options.source
    this.#attempts = options.attempts
    this.#outage = new RepeatedWarning(options.log, 'cycles get through again')
  }

  open(): Promise<void> {
    return this.#source.open({
      wake: (again) => this.wake(again),
      answered: (answer, ageMs) => this.#noteAnswer(answer, ageMs),
      beat: (beat) => this.#noteBeat(beat),
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
  }

  /** Runs the cycle that reports what has been noted, unless one is under way: then that one goes round once more. */
  report(): void {
    if (this.#cycling === undefined && this.#mode !== 'new') void this.#cycle()
  }

  /** This worker cannot start jobs. Takes none until somebody brings it back. */
  breakDown(why: string): void {
    // As the next heartbeat says. Whoever brings it back sooner reports only that.
    this.#draining = true
    this.#source.broken(why)
  }

  /** Runs cycles until there is nothing to do; a call during one makes it go round once more. */
  #cycle(): Promise<void> {
    this.#again = true
    this.#cycling ??= this.#cycleUntilIdle().finally(() => {
      this.#cycling = undefined
      // What came after the last round began its way out would otherwise wait for the poll.
      if (this.#reached && (this.#again || this.#ended.length > 0)) void this.#cycle()
      else this.#rest()
    })
    return this.#cycling
  }

  async #cycleUntilIdle(): Promise<void> {
    clearTimeout(this.#timer)
    this.#reached = true
    while (this.#again) {
      this.#again = false
      const received = this.#received.shift()
      if (received !== undefined) {
        await this.#act(received)
        this.#again = true
        continue
      }
      const free = this.#free()
      const answer = await this.#exchange(free)
      if (answer === undefined) {
        this.#reached = false
        this.#lookAgain = LOOK_AGAIN_MS.length
        this.#timer = setTimeout(() => this.wake(false), RETRY_MS * (0.5 + Math.random()))
        return
      }
      await this.#act(answer)
      if (this.#ended.length > 0 || answer.again) this.#again = true
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
    const resync = this.#resync
    const poll = this.#polls && ended.length === 0
    this.#polls = false
    this.#resync = false
    const sentAt = performance.now()
    try {
      const answer = await this.#source.cycle({
        ...{ ended, free, poll, resync, freeProcesses: freeProcesses(), running: () => this.#running() },
        ...(limits !== undefined && { limits }),
        ...(news !== undefined && { news }),
      })
      this.#outage.worked()
      models.told(answer.newsTaken === true)
      // News that was not taken goes with the next cycle that has a reason of its own.
      if (models.hasNews && (news === undefined || answer.newsTaken === true)) this.#again = true
      this.#ended = [...(answer.unsent ?? []), ...this.#ended]
      return this.#unlessLate(answer, performance.now() - sentAt)
    } catch (error) {
      models.told(false)
      this.#resync ||= resync
      if (hasCode(error, 'WORKER_NOT_FOUND')) return this.#startOver(ended)
      this.#ended = [...ended, ...this.#ended]
      const code = error instanceof Error && 'code' in error ? { code: error.code } : {}
      const facts = { worker: this.#options.name, error: messageOf(error), ...code }
      this.#outage.failed(facts, 'cycle failed; what it reported is sent again')
      return undefined
    }
  }

  /** What the worker holds, less the endings that go with this cycle. */
  #running(): JobAttempt[] {
    const received = this.#received.flatMap(({ assignments }) => assignments)
    const others = [...received, ...this.#assigned, ...this.#ended]
    return [...this.#attempts.named(), ...others.map(({ id, attempt }) => ({ id, attempt }))]
  }

  /** Others run its jobs now. Everything it has is lost; it continues as a new worker. */
  async #startOver(ended: readonly EndedAttempt[]): Promise<CycleAnswer | undefined> {
    const { name: worker, log } = this.#options
    const lost = this.#attempts.named().map(({ id }) => id)
    log.error({ worker, lost: lost.length, refused: ended.length }, DECLARED_DEAD)
    try {
      await this.#source.startOver([...new Set([...ended.map(({ id }) => id), ...lost])])
    } catch (error) {
      this.#ended = [...ended, ...this.#ended]
      log.warn({ worker, error: messageOf(error) }, 'could not register anew')
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
    this.#assigned.push(...this.#unknown(answer.assignments))
    this.#startAssigned()
    if (answer.orders !== undefined) this.#obey(answer.orders)
    if (answer.assignments.length === 0) return
    this.#lookAgain = 0
    await new Promise((resolve) => setImmediate(resolve))
  }

  /** Two answers may give the same job. */
  #unknown(given: readonly Assignment[]): readonly Assignment[] {
    if (given.length === 0) return given
    const ended = new Map(this.#ended.map(({ id, attempt }) => [id, attempt]))
    return given.filter(({ id, attempt }) => !this.#attempts.has(id, attempt) && ended.get(id) !== attempt)
  }

  /** The one place where assigned jobs start or go back. */
  #startAssigned(): void {
    for (const assignment of this.#assigned.splice(0)) {
      const { id, attempt } = assignment
      if (this.#mode === 'handing back') this.#ended.push({ id, attempt, ending: { kind: 'returned' } })
      else this.#attempts.start(assignment)
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

  /** How many jobs it can take now. */
  #free(): number {
    const { capacity, cycleMax } = this.#options
    if (this.#mode !== 'taking' || this.#silent || this.#draining || this.#attempts.starts.isBroken) return 0
    const held = this.#attempts.size + this.#assigned.length
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
    const isLate = this.#missedBeats && ageMs > DOUBTFUL_BEATS * this.#source.heartbeatMs
    if (!isLate || answer.assignments.length === 0) return answer
    this.#options.log.warn({ jobs: answer.assignments.map(({ id }) => id) }, LATE)
    this.#resync = true
    return { ...answer, assignments: [], again: true }
  }

  #noteBeat(beat: SourceBeat | null): void {
    // A request that was sent before might wait for the rest of its time limit: it fails now, and is sent again.
    if (this.#distrusts) this.#source.renew()
    const isInDoubt = beat === null || beat.resync || !this.#attempts.areIn(beat.lanes)
    const wakes = this.#silent || isInDoubt
    this.#distrusts = false
    this.#missedBeats = false
    this.#silent = false
    this.#resync ||= isInDoubt
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
    const { heartbeatMs, staleByLane } = this.#source
    if (silentMs > DOUBTFUL_BEATS * heartbeatMs) this.#missedBeats = true
    if (unansweredMs > DOUBTFUL_BEATS * heartbeatMs) this.#distrusts = true
    const lanes = new Set<string>()
    for (const [lane, staleMs] of staleByLane) if (silentMs >= staleMs - heartbeatMs) lanes.add(lane)
    if (lanes.size === 0) return
    this.#silent = true
    this.#attempts.abandon(lanes, silentMs)
  }

  #obey({ cancels, draining, stopping }: WorkerOrders): void {
    this.#attempts.cancel(cancels)
    if (this.#draining !== draining) {
      this.#draining = draining
      // Whoever brings back a broken worker has repaired it. If not, three jobs tell.
      if (!draining) this.#attempts.starts.mend()
      this.wake(false)
    }
    if (stopping) this.#options.onStopAsked()
  }
}
