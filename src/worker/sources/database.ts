import { Connection } from '../../db/connection.ts'
import type { Database } from '../../db/database.ts'
import type { HintTopic, Listener } from '../../db/listener.ts'
import { AttemptStore } from '../../engine/attempt-store.ts'
import { databaseTraces } from '../../engine/database-traces.ts'
import { type Beat, Dispatcher } from '../../engine/dispatcher.ts'
import { databaseBeats, Heartbeat } from '../../engine/heartbeat.ts'
import type { Log } from '../../engine/log.ts'
import { PollSchedule } from '../../engine/poll-schedule.ts'
import { Recorder } from '../../engine/recorder.ts'
import { leaveIfDue, passOver, restoreTask, shareProcesses, withdraw } from '../../engine/worker-control.ts'
import { messageOf } from '../../errors.ts'
import type { Assignment, CycleAnswer } from '../../model/assignment.ts'
import type { DeviceBudget, DeviceReading } from '../../model/device.ts'
import type { AttemptServices } from '../attempt.ts'
import type { CycleRequest, JobSource, SourceEvents } from '../job-source.ts'

export interface DatabaseSourceOptions {
  readonly db: Database
  readonly listener: Listener
  readonly identity: ConstructorParameters<typeof Dispatcher>[0]['identity']
  readonly inlineTasks: readonly string[]
  readonly processTasks: ReadonlySet<string>
  readonly heartbeatMs: number
  readonly log: Log
  /**
   * Called when endings have been recorded: somebody in this process may wait for them. `dueInMs`: the first of them comes
   * back after that long.
   */
  readonly onEnded?: (dueInMs: number | null) => void
}

/** A cycle that takes longer is given up; its outcome is then unknown and the worker resyncs. */
const CYCLE_TIMEOUT_MS = 15_000
/** After so many heartbeats without any answer connections are not trusted any more. One may just have been slow. */
const DOUBTFUL_BEATS = 2
const LATE =
  'jobs came when no heartbeat got through any more; they are not begun before the database was asked'

/** Jobs straight from the database: one connection for cycles, one for the heartbeat. */
export class DatabaseSource implements JobSource {
  readonly #options: DatabaseSourceOptions
  readonly #connection: Connection
  readonly #dispatcher: Dispatcher
  readonly #schedule = new PollSchedule()
  readonly #recorder: Recorder
  readonly #store: AttemptStore
  #heartbeat: Heartbeat<Beat> | undefined
  #unsubscribe: (() => void) | undefined
  #workerId = ''
  #refreshedAt = 0
  #offer: string | undefined
  #shares: string | null = null
  /** No heartbeat gets through, or none has yet: what it would claim now it might have to give up at once. */
  #silent = true
  /** Heartbeats were missed: what else is under way may never be answered. */
  #doubtful = false
  /** When it is about to follow a hint. */
  #wakeAt = Number.POSITIVE_INFINITY
  #waking: NodeJS.Timeout | undefined

  constructor(options: DatabaseSourceOptions) {
    this.#options = options
    this.#connection = new Connection({
      url: options.db.url,
      applicationName: 'sluice-cycle',
      timeoutMs: CYCLE_TIMEOUT_MS,
    })
    this.#recorder = new Recorder(
      databaseTraces(options.db, () => this.#workerId),
      options.log,
    )
    this.#store = new AttemptStore(options.db)
    this.#dispatcher = new Dispatcher({
      ...options,
      connection: this.#connection,
      hears: () => options.listener.hears,
    })
  }

  get pollMs(): number {
    return this.#schedule.nextMs(this.#dispatcher.polls, performance.now())
  }

  get lookAgainMs(): number {
    return this.#dispatcher.lookAgainMs
  }

  get isBehind(): boolean {
    return this.#dispatcher.order.isBehind
  }

  get holdsIdle(): boolean {
    return this.#dispatcher.holdsIdle
  }

  async open(events: SourceEvents): Promise<void> {
    const { db, listener, inlineTasks, heartbeatMs, log } = this.#options
    const registeredAt = process.hrtime.bigint()
    await this.#dispatcher.open()
    this.#workerId = this.#dispatcher.workerId
    this.#heartbeat = new Heartbeat({
      thread: databaseBeats(db.url),
      workerId: this.#workerId,
      heartbeatMs,
      registeredAt,
      inlineTasks,
      log,
      events: {
        beat: (workerId, beat) => {
          if (workerId !== this.#workerId) return
          if (this.#silent) {
            this.#silent = false
            events.wake(false)
          }
          this.#trustAgain()
          const lanes = beat?.lanes ?? []
          const isMissing = [...this.#dispatcher.staleByLane.keys()].some((lane) => !lanes.includes(lane))
          if (isMissing || beat?.resync === true) {
            this.#dispatcher.markOutOfStep()
            events.wake(false)
          }
          if (beat === null) return
          void this.#dispatcher.noteDone()
          this.#dispatcher.order.notePeers(beat.peers, beat.ahead)
          this.#noteOffer(beat.offer, events)
          if (beat.shares !== this.#shares) {
            this.#shares = beat.shares
            events.sharesChanged()
          }
          if (beat.cancels.length > 0) events.cancel(beat.cancels)
          events.draining(beat.draining)
          if (beat.stopping) events.stop()
          else void this.#leaveIfDue(beat)
        },
        silent: (silentMs, unansweredMs) => {
          if (unansweredMs > DOUBTFUL_BEATS * heartbeatMs) this.#doubtful = true
          const lanes = [...this.#dispatcher.staleByLane]
            .filter(([, staleMs]) => silentMs >= staleMs - heartbeatMs)
            .map(([lane]) => lane)
          if (lanes.length === 0) return
          this.#silent = true
          events.abandon(lanes, silentMs)
        },
      },
    })
    this.#unsubscribe = listener.subscribe((topic) => this.#hear(topic, events))
    listener.start()
  }

  async cycle(request: CycleRequest): Promise<CycleAnswer> {
    if (this.#refreshedAt === 0) await this.#refresh()
    else if (performance.now() - this.#refreshedAt > 2 * shortest(this.#dispatcher.polls))
      void this.#refresh()
    const sentAt = performance.now()
    const { polls } = this.#dispatcher
    const lanes = request.poll === true ? this.#schedule.due(polls, sentAt) : undefined
    this.#schedule.looked(lanes ?? polls.keys(), sentAt, Math.random())
    this.#dispatcher.limitTasks(request.limits)
    const answer = await this.#dispatcher.cycle(
      request.ended,
      this.#silent ? 0 : request.free,
      request.freeProcesses,
      request.news,
      lanes,
    )
    if (request.ended.length > 0) this.#options.onEnded?.(firstDue(request.ended))
    if (this.#dispatcher.workerId === this.#workerId) return this.#unlessLate(answer, sentAt)
    this.#workerId = this.#dispatcher.workerId
    this.#heartbeat?.follow(this.#workerId)
    return { ...answer, startedOver: true }
  }

  servicesFor(assignment: Assignment, signal: AbortSignal): AttemptServices {
    const { id, attempt } = assignment
    const recorder = this.#recorder
    const store = this.#store
    const lease = { jobId: id, attempt, workerId: this.#workerId, signal }
    return {
      progress(fraction, message) {
        signal.throwIfAborted()
        recorder.progress(id, attempt, fraction, message)
      },
      log: (level, message) => recorder.log(id, attempt, level, message),
      loadStep: (name) => store.loadStep(lease, name),
      saveStep: (name, result) => store.saveStep(lease, name, result),
      loadCheckpoint: () => store.loadCheckpoint(lease),
      saveCheckpoint: (value) => store.saveCheckpoint(lease, value),
    }
  }

  flush(assignment: Assignment): Promise<void> | undefined {
    return this.#recorder.finish(assignment.id)
  }

  /** For the watch on a blocked event loop. */
  started(task: string): void {
    this.#heartbeat?.started(task)
  }

  ended(task: string): void {
    this.#heartbeat?.ended(task)
  }

  reportDevices(readings: readonly DeviceReading[]): Promise<readonly DeviceBudget[]> {
    return this.#dispatcher.reportDevices(readings)
  }

  async shareProcesses(held: number): Promise<number> {
    // One that has been declared dead registers again, and asks as another.
    return (await shareProcesses(this.#options.db, this.#workerId, held)) ?? 0
  }

  broken(why: string): void {
    passOver(this.#options.db, this.#workerId, why).catch((error: unknown) => {
      this.#options.log.warn({ error: messageOf(error) }, 'could not report as broken')
    })
  }

  withdrawTask(task: string, why: string, retryMs: number): void {
    withdraw(this.#options.db, this.#workerId, task, why, retryMs).catch((error: unknown) => {
      this.#options.log.warn({ task, error: messageOf(error) }, 'could not report a task as withdrawn')
    })
  }

  restoreTask(task: string): void {
    restoreTask(this.#options.db, this.#workerId, task).catch((error: unknown) => {
      this.#options.log.warn({ task, error: messageOf(error) }, 'could not report a task as startable')
    })
  }

  async close(why: string): Promise<void> {
    this.#unsubscribe?.()
    clearTimeout(this.#waking)
    try {
      await this.#recorder.flush()
      if (this.#workerId !== '') await this.#dispatcher.close(why)
    } catch (error) {
      // It will be found silent and taken off the books like a dead one.
      this.#options.log.warn({ error: messageOf(error) }, 'could not sign off')
    }
    await this.#heartbeat?.stop()
    await this.#connection.close()
  }

  #hear(topic: HintTopic, events: SourceEvents): void {
    switch (topic) {
      case 'ready':
      case 'one':
        this.#wakeInTurn(topic === 'one', events)
        break
      case 'slots':
        this.#dispatcher.dropIdleSlots()
        events.wake(false)
        break
      case 'lane':
        this.#refreshedAt = 0
        events.wake(false)
        break
      case 'classes':
        this.#refreshedAt = 0
        events.wake(true)
        break
      case 'cancel':
      case 'workers':
        this.#heartbeat?.now()
        break
      case 'done':
      case 'wake':
        break
      default:
        topic satisfies never
    }
  }

  /** All workers hear the same hint. Who comes first asks first, and many do not ask at the same instant. */
  #wakeInTurn(one: boolean, events: SourceEvents): void {
    const ms = this.#dispatcher.order.hesitationMs(one, Math.random())
    const at = performance.now() + ms
    if (at >= this.#wakeAt) return
    clearTimeout(this.#waking)
    const wake = () => {
      this.#wakeAt = Number.POSITIVE_INFINITY
      events.wake(true)
    }
    this.#wakeAt = at
    if (ms === 0) wake()
    else this.#waking = setTimeout(wake, ms)
  }

  /** An answer that was on its way while heartbeats were missed: the leases may have ended, and others run the jobs. */
  #unlessLate(answer: CycleAnswer, sentAt: number): CycleAnswer {
    const isLate = performance.now() - sentAt > DOUBTFUL_BEATS * this.#options.heartbeatMs
    if (!this.#doubtful || !isLate || answer.assignments.length === 0) return answer
    const jobs = answer.assignments.map(({ id }) => id)
    this.#options.log.warn({ jobs }, LATE)
    this.#dispatcher.disown(jobs)
    return { ...answer, assignments: [], again: true }
  }

  /**
   * The network was away and is back: the heartbeat has a new connection. A cycle that was sent before might wait for the rest
   * of its time limit; it is given up now, and a resync tells what became of it.
   */
  #trustAgain(): void {
    if (!this.#doubtful) return
    this.#doubtful = false
    this.#connection.drop()
    this.#options.db.noteOutage()
  }

  /** Where no hints arrive, the heartbeat still tells of lanes and classes that are new. */
  #noteOffer(offer: string, events: SourceEvents): void {
    if (offer === this.#offer) return
    this.#offer = offer
    this.#refreshedAt = 0
    events.wake(false)
  }

  /** A hint makes the heartbeat tell that it has to stop. */
  async #leaveIfDue(beat: Beat): Promise<void> {
    try {
      const why = await leaveIfDue(this.#options.db, this.#workerId, beat, this.#dispatcher.idleMs)
      if (why !== undefined) this.#options.log.info({ why }, 'this worker leaves its pool')
    } catch (error) {
      // The next heartbeat asks again.
      this.#options.log.warn({ error: messageOf(error) }, 'could not ask whether to leave')
    }
  }

  async #refresh(): Promise<void> {
    this.#refreshedAt = performance.now()
    try {
      await this.#dispatcher.refresh()
    } catch (error) {
      this.#options.log.warn({ error: messageOf(error) }, 'could not read the lanes')
    }
  }
}

function shortest(polls: ReadonlyMap<string, number>): number {
  return Math.min(30_000, ...polls.values())
}

function firstDue(ended: CycleRequest['ended']): number | null {
  let first: number | null = null
  for (const { ending } of ended) {
    if ('delayMs' in ending && (first === null || ending.delayMs < first)) first = ending.delayMs
  }
  return first
}
