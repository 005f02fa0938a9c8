import { Connection } from '../../db/connection.ts'
import type { Database } from '../../db/database.ts'
import type { HintTopic, Listener } from '../../db/listener.ts'
import { PollSchedule } from '../../engine/dispatch/poll-schedule.ts'
import { WorkerSession } from '../../engine/dispatch/worker-session.ts'
import { AttemptStore } from '../../engine/leases/attempt-store.ts'
import { databaseTraces } from '../../engine/leases/database-traces.ts'
import { databaseBeats, Heartbeat } from '../../engine/leases/heartbeat.ts'
import { noteLateWrites } from '../../engine/leases/late-writes.ts'
import { Recorder } from '../../engine/leases/recorder.ts'
import type { Log } from '../../engine/log.ts'
import { leaveIfDue, passOver, withdraw } from '../../engine/operate/worker-control.ts'
import { messageOf } from '../../errors.ts'
import { AssignedCells } from '../../model/assigned-cells.ts'
import { type Assignment, type CycleAnswer, firstDue } from '../../model/assignment.ts'
import type { DeviceBudget, DeviceReading } from '../../model/device.ts'
import { CYCLE_TIMEOUT_MS, RETURN_IDLE_SLOTS_AFTER_MS } from '../../model/limits.ts'
import type { WorkerIdentity } from '../../model/worker-identity.ts'
import { addJobsDone } from '../../store/add-jobs-done.ts'
import { endWorker } from '../../store/end-worker.ts'
import type { HeartbeatReply } from '../../store/heartbeat.ts'
import { registerWorker } from '../../store/register-worker.ts'
import { reportDevices } from '../../store/report-devices.ts'
import { shareProcesses } from '../../store/share-processes.ts'
import { restoreTask } from '../../store/withdraw-task.ts'
import type { AttemptServices } from '../attempt.ts'
import type { JobSource, SourceEvents, SourceRequest } from '../job-source.ts'

export interface DatabaseSourceOptions {
  readonly db: Database
  readonly listener: Listener
  readonly identity: WorkerIdentity
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

const REFUSED = 'rejected outcomes: this worker no longer held the jobs'

/** Jobs straight from the database: one connection for cycles, one for the heartbeat. */
export class DatabaseSource implements JobSource {
  readonly #options: DatabaseSourceOptions
  readonly #connection: Connection
  readonly #session: WorkerSession
  readonly #schedule = new PollSchedule()
  readonly #recorder: Recorder
  readonly #store: AttemptStore
  readonly assignedCells = new AssignedCells()
  #heartbeat: Heartbeat<HeartbeatReply> | undefined
  #unsubscribe: (() => void) | undefined
  #offer: string | undefined
  /** When it is about to follow a hint. */
  #wakeAt = Number.POSITIVE_INFINITY
  #waking: NodeJS.Timeout | undefined

  constructor(options: DatabaseSourceOptions) {
    const { db, listener, identity, processTasks, log } = options
    this.#options = options
    this.#connection = new Connection({
      url: db.url,
      applicationName: 'sluice-cycle',
      timeoutMs: CYCLE_TIMEOUT_MS,
    })
    this.#session = new WorkerSession({
      ...{
        db,
        connection: this.#connection,
        tasks: identity.tasks,
        labels: identity.labels,
        processTasks,
        log,
      },
      hears: () => listener.hears,
      isLocal: true,
      onResync: () => this.assignedCells.note(this.#session.known, this.#session.epoch),
    })
    this.#recorder = new Recorder(
      databaseTraces(db, () => this.#session.workerId),
      log,
    )
    this.#store = new AttemptStore(db)
  }

  get heartbeatMs(): number {
    return this.#options.heartbeatMs
  }

  get silentMs(): number {
    return this.#heartbeat?.silentMs ?? 0
  }

  get staleByLane(): ReadonlyMap<string, number> {
    return this.#session.offer.staleByLane
  }

  get pollMs(): number {
    return this.#schedule.nextMs(this.#session.offer.polls, performance.now())
  }

  get lookAgainMs(): number {
    const { claiming, slots } = this.#session
    return slots.holdsIdle ? Math.min(claiming.lookAgainMs, RETURN_IDLE_SLOTS_AFTER_MS) : claiming.lookAgainMs
  }

  get isBehind(): boolean {
    return this.#session.claiming.order.isBehind
  }

  async open(events: SourceEvents): Promise<void> {
    const { db, listener, inlineTasks, heartbeatMs, log } = this.#options
    const registeredAt = process.hrtime.bigint()
    await this.#register()
    await this.#session.catchUp({ ended: [], running: () => [] })
    this.#heartbeat = new Heartbeat({
      thread: databaseBeats(db.url, this.assignedCells.buffer),
      workerId: this.#session.workerId,
      heartbeatMs,
      registeredAt,
      inlineTasks,
      log,
      events: {
        beat: (workerId, beat) => {
          if (workerId === this.#session.workerId) this.#noteBeat(beat, events)
        },
        silent: events.silent,
      },
    })
    this.#unsubscribe = listener.subscribe((topic) => this.#hear(topic, events))
    listener.start()
  }

  async startOver(late: readonly string[]): Promise<void> {
    const { db, identity } = this.#options
    await this.#register()
    this.#heartbeat?.follow(this.#session.workerId)
    await noteLateWrites(db, identity.name, late, 'it was declared dead and came back')
  }

  async #register(): Promise<void> {
    this.#session.follow(await registerWorker(this.#connection, this.#options.identity))
  }

  async cycle({ poll, resync, ...request }: SourceRequest): Promise<CycleAnswer> {
    const { db, identity, log, onEnded } = this.#options
    const { offer } = this.#session
    const sentAt = performance.now()
    if (sentAt - (offer.readAt ?? sentAt) > 2 * shortest(offer.polls)) void this.#session.refresh()
    const lanes = poll ? this.#schedule.due(offer.polls, sentAt) : undefined
    this.#schedule.looked(lanes ?? offer.polls.keys(), sentAt, Math.random())
    if (resync) this.#session.markOutOfStep()
    this.assignedCells.sent(this.#session.known, this.#session.epoch)
    try {
      const answer = await this.#session.cycle({ ...request, lanes })
      if (answer.refused.length > 0) log.info({ jobs: answer.refused.map(({ id }) => id) }, REFUSED)
      await noteLateWrites(db, identity.name, answer.lost, 'it lost the lane they run in')
      return answer
    } finally {
      this.assignedCells.answered(this.#session.known, this.#session.epoch)
      if (request.ended.length > 0) onEnded?.(firstDue(request.ended))
    }
  }

  /** Gives up a cycle that was sent before the outage; a resync finds out what became of it. */
  renew(since: number): void {
    this.#connection.dropUnlessProven(since)
    this.#options.db.noteOutage()
  }

  servicesFor(assignment: Assignment, signal: AbortSignal): AttemptServices {
    const { id, attempt } = assignment
    const recorder = this.#recorder
    const store = this.#store
    const lease = { jobId: id, attempt, workerId: this.#session.workerId, signal }
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
    return reportDevices(this.#options.db, this.#session.workerId, readings)
  }

  async shareProcesses(held: number): Promise<number> {
    // One that has been declared dead registers again, and asks as another.
    return (await shareProcesses(this.#options.db, this.#session.workerId, held)) ?? 0
  }

  broken(why: string): void {
    this.#tell(passOver(this.#options.db, this.#session.workerId, why), 'could not report as broken')
  }

  withdrawTask(task: string, why: string, retryMs: number): void {
    const told = withdraw(this.#options.db, this.#session.workerId, task, why, retryMs)
    this.#tell(told, 'could not report a task as withdrawn')
  }

  restoreTask(task: string): void {
    const told = restoreTask(this.#options.db, this.#session.workerId, task)
    this.#tell(told, 'could not report a task as startable')
  }

  #tell(told: Promise<unknown>, failed: string): void {
    told.catch((error: unknown) => this.#options.log.warn({ error: messageOf(error) }, failed))
  }

  async close(why: string): Promise<void> {
    this.#unsubscribe?.()
    clearTimeout(this.#waking)
    try {
      await this.#recorder.flush()
      if (this.#session.workerId !== '') {
        await this.#noteDone()
        await endWorker(this.#options.db, this.#session.workerId, why)
      }
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
        this.#session.slots.dropIdle()
        events.recall()
        events.wake(false)
        break
      case 'lane':
        this.#session.noteOffer()
        events.recall()
        events.wake(false)
        break
      case 'classes':
        this.#session.noteOffer()
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
    const ms = this.#session.claiming.order.hesitationMs(one, Math.random())
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

  #noteBeat(beat: HeartbeatReply | null, events: SourceEvents): void {
    if (beat === null) {
      events.beat(null)
      return
    }
    void this.#noteDone()
    this.#session.claiming.order.notePeers(beat.peers, beat.ahead)
    this.#noteOffer(beat.offer, events)
    const { lanes, cancels, draining, stopping, shares } = beat
    const isMissing = [...this.staleByLane.keys()].some((lane) => !lanes.includes(lane))
    events.beat({ lanes, cancels, draining, stopping, shares, resync: beat.resync || isMissing })
    if (!stopping) void this.#leaveIfDue(beat)
  }

  /** Of a worker of a pool, how many jobs it has ended since the last time: pools show it for those they started. */
  async #noteDone(): Promise<void> {
    const { db, identity, log } = this.#options
    const { workerId } = this.#session
    if (typeof identity.pool !== 'string') return
    const jobs = this.#session.takeDone()
    if (jobs === 0) return
    try {
      await addJobsDone(db, [{ workerId, jobs }])
    } catch (error) {
      this.#session.giveBackDone(jobs)
      log.warn({ error: messageOf(error) }, 'could not record the activity of this worker')
    }
  }

  /** Where no hints arrive, the heartbeat still tells of lanes and classes that are new. */
  #noteOffer(offer: string, events: SourceEvents): void {
    if (offer === this.#offer) return
    this.#offer = offer
    this.#session.noteOffer()
    events.recall()
    events.wake(false)
  }

  /** A hint makes the heartbeat tell that it has to stop. */
  async #leaveIfDue(beat: HeartbeatReply): Promise<void> {
    try {
      const why = await leaveIfDue(this.#options.db, this.#session.workerId, beat, this.#session.idleMs)
      if (why !== undefined) this.#options.log.info({ why }, 'this worker leaves its pool')
    } catch (error) {
      // The next heartbeat asks again.
      this.#options.log.warn({ error: messageOf(error) }, 'could not check whether to leave the pool')
    }
  }
}

function shortest(polls: ReadonlyMap<string, number>): number {
  return Math.min(30_000, ...polls.values())
}
