import type { Database, Queryable, Row, Statement } from '../../db/database.ts'
import { transactWithRetries, withRetries } from '../../db/with-retries.ts'
import type { Caller } from '../../engine/access/caller.ts'
import {
  checkKey,
  checkRegistration,
  closeRemoteWorker,
  findEndedWorker,
  findRemoteWorkers,
  type RegisteredWorker,
  registerRemoteWorkers,
} from '../../engine/leases/remote-workers.ts'
import { leaveIfDue, workerEnded } from '../../engine/operate/worker-control.ts'
import { hasCode, messageOf } from '../../errors.ts'
import type { CycleAnswer, EndedAttempt } from '../../model/assignment.ts'
import type { BlockedLoop } from '../../model/blocked-loop.ts'
import type { DeviceBudget, DeviceReading } from '../../model/device.ts'
import { checkWorkerScope } from '../../model/run-scope.ts'
import type { TaskRecord } from '../../model/task-record.ts'
import type { WorkerIdentity } from '../../model/worker-identity.ts'
import { addJobsDone, type DoneJobs } from '../../store/add-jobs-done.ts'
import { handBack } from '../../store/hand-back.ts'
import { beat, type HeartbeatReply, sendHeartbeats } from '../../store/heartbeat.ts'
import { loadOrders } from '../../store/load-orders.ts'
import { loadStale } from '../../store/load-stale.ts'
import type { StoredWorker } from '../../store/load-workers.ts'
import { reportDevices } from '../../store/report-devices.ts'
import { type Resynced, resyncWorkers } from '../../store/resync-worker.ts'
import { shareProcesses } from '../../store/share-processes.ts'
import { restoreTask } from '../../store/withdraw-task.ts'
import type { ServerParts } from '../parts.ts'
import { Batcher } from './batcher.ts'
import { IdlePolls } from './idle-polls.ts'
import { LateEndings } from './late-endings.ts'
import { type RemoteAnswer, readSeen } from './prefetch.ts'
import { RemoteWorker, type WaitingCycle } from './remote-worker.ts'
import { Semaphore } from './semaphore.ts'

const STALE_KEPT_MS = 2000
/**
 * Workers come in storms: 500 of them within a second, when a fleet starts or after a server was away. What they ask for goes
 * together, and takes this many connections at once of the four that everybody shares, so that the rest of the API has some too.
 */
const STORM = { atOnce: 1, most: 25, everyMs: 20 }
/** All connections there are for it. */
const BEATS_AT_ONCE = 2
/** Workers that come back with jobs and look for more at once. Further ones would only fill the cores. */
const RETURNS_AT_ONCE = 2
/** A worker not heard of for so long has ended or turned to another server. Forgetting it costs one resync. */
const FORGET_MS = 10 * 60_000

/** A key that speaks for a worker. */
type WorkerKey = Pick<Caller, 'keyId' | 'runs'>

interface Registration {
  readonly identity: WorkerIdentity & { readonly keyId: string }
  /** Patterns of the lanes that the key allows. */
  readonly lanes: readonly string[]
  /** Of a task that nobody has made known yet. */
  readonly highestPriority: number
  readonly tasks: readonly TaskRecord[]
  readonly plain: TaskRecord
}

export interface HeldLeases {
  /** Of the lanes it still holds leases in. */
  readonly staleMs: Readonly<Record<string, number>>
  readonly cancels: readonly string[]
  readonly draining: boolean
  readonly stopping: boolean
  readonly peers: number
  readonly shares: string | null
}

/** The workers that speak to this server. */
export class RemoteWorkers {
  readonly #parts: ServerParts
  readonly #cycles: Database
  readonly #beats: Database
  readonly #idlePolls: IdlePolls
  readonly #workers = new Map<string, Promise<RemoteWorker>>()
  readonly #registrations: Batcher<Registration, RegisteredWorker>
  readonly #loads: Batcher<string, StoredWorker | undefined>
  readonly #leases: Batcher<string, HeartbeatReply | undefined>
  readonly #done: Batcher<DoneJobs, undefined>
  /** Reads of what many workers have in common: the classes that they can serve. */
  readonly #reads: Batcher<{ readonly statement: Statement; readonly values: readonly unknown[] }, Row[]>
  readonly #resyncs: Batcher<string, Resynced | undefined>
  readonly #returns = new Semaphore(RETURNS_AT_ONCE)
  readonly #late: LateEndings
  readonly #sweep: NodeJS.Timeout
  readonly #unsubscribe: () => void
  #stale: { readonly at: number; readonly byLane: Promise<ReadonlyMap<string, number>> } | undefined

  constructor(parts: ServerParts) {
    const { calls, listener } = parts.services
    this.#parts = parts
    this.#cycles = parts.connections.cycles
    this.#beats = parts.connections.beats
    const forCycles = withRetries(this.#cycles)
    const forBeats = withRetries(this.#beats)
    this.#registrations = new Batcher({
      ...STORM,
      likeness: ({ tasks, plain, lanes, highestPriority }) =>
        JSON.stringify([tasks, plain, lanes, highestPriority]),
      answer: (all) => this.#register(all),
      // A pool that is full, a lane that is not there: the others may be in order.
      blamesOne: (error) => !hasCode(error, 'DATABASE_UNAVAILABLE'),
    })
    this.#loads = new Batcher({
      ...STORM,
      answer: (ids) => findRemoteWorkers(forBeats, ids),
    })
    this.#resyncs = new Batcher({
      ...STORM,
      answer: async (ids) => {
        const resynced = await resyncWorkers(this.#cycles, ids)
        return ids.map((id) => resynced.get(id))
      },
    })
    this.#leases = new Batcher({
      ...STORM,
      atOnce: BEATS_AT_ONCE,
      answer: async (ids) => {
        const beats = await sendHeartbeats(this.#beats, ids)
        return ids.map((id) => beats.get(id))
      },
    })
    this.#done = new Batcher({
      ...STORM,
      answer: async (done) => {
        await addJobsDone(calls, done)
        return done.map(() => undefined)
      },
    })
    this.#reads = new Batcher({
      ...STORM,
      everyMs: 0,
      likeness: ({ statement, values }) => `${statement.name} ${JSON.stringify(values)}`,
      answer: async (all) => {
        const { statement, values } = all[0]!
        const rows = await forCycles.run(statement, values)
        return all.map(() => rows)
      },
    })
    this.#late = new LateEndings(calls, parts.log)
    this.#idlePolls = new IdlePolls({
      listener,
      loadOrders: (ids) => loadOrders(forCycles, ids),
      log: parts.log,
    })
    this.#unsubscribe = listener.subscribe((topic) => {
      if (topic === 'lane') this.#stale = undefined
    })
    this.#sweep = setInterval(() => void this.#forgetOld(), FORGET_MS / 10)
    this.#sweep.unref()
  }

  async register(
    { identity, ...allowed }: Pick<Registration, 'identity' | 'lanes' | 'highestPriority'>,
    tasks: readonly TaskRecord[],
    plain: TaskRecord,
  ): Promise<RegisteredWorker> {
    checkRegistration(identity, tasks)
    return this.#registrations.ask({ identity, ...allowed, tasks, plain })
  }

  /** @throws {SluiceError} `WORKER_NOT_FOUND`, `FORBIDDEN`; what the database throws. */
  async cycle(
    id: string,
    key: WorkerKey,
    request: WaitingCycle,
    onGone: (gone: () => void) => void,
  ): Promise<RemoteAnswer> {
    let worker: RemoteWorker | undefined
    try {
      worker = await this.get(id, key)
      const answer = await worker.cycle(request, onGone)
      this.#noteRefused(worker, request, answer)
      return answer
    } catch (error) {
      if (hasCode(error, 'WORKER_NOT_FOUND')) {
        if (worker !== undefined) this.#forget(id, worker)
        // Not waited for: it is for people.
        void this.#noteEnded(id, key.keyId, request)
      }
      throw error
    }
  }

  #noteRefused(worker: RemoteWorker, request: WaitingCycle, { refused, lost }: CycleAnswer): void {
    const gone = new Set(lost)
    const stopped = request.running.filter((each) => gone.has(each.id))
    const unstarted = new Set(request.ended.filter(wasNotStarted).map(({ id }) => id))
    const late = refused.filter(({ id }) => !unstarted.has(id))
    // Not waited for: it is for people.
    if (late.length > 0) void this.#late.note(worker, late, 'it does not hold them, or no longer')
    if (stopped.length > 0) void this.#late.note(worker, stopped, 'it lost the lane they run in')
  }

  /** A worker that was declared dead, or has left, goes on: with jobs that are others' now. */
  async #noteEnded(id: string, keyId: string, { ended, running }: WaitingCycle): Promise<void> {
    if (ended.length + running.length === 0) return
    // Only of workers of its own a key may tell anything.
    const worker = await findEndedWorker(this.#parts.services.calls, id).catch(() => undefined)
    if (worker?.keyId !== keyId) return
    const run = ended.filter((each) => !wasNotStarted(each))
    await this.#late.note(worker, [...run, ...running], 'it was declared dead or has left, and came back')
  }

  /** Renews the worker's leases. @throws {SluiceError} `WORKER_NOT_FOUND`, `FORBIDDEN` */
  async beat(id: string, key: WorkerKey, blocked: BlockedLoop | undefined): Promise<HeldLeases> {
    const worker = await this.get(id, key)
    const together = blocked === undefined ? await this.#leases.ask(id) : undefined
    // Not there: it has ended, or its row is being written. Alone it may wait for that, and tells which.
    const answer = together ?? (await beat(this.#beats, id, blocked))
    if (answer === undefined) {
      this.#forget(id, worker)
      throw workerEnded(id)
    }
    worker.noteBeat(answer)
    this.#noteDone(worker).catch((error: unknown) =>
      this.#parts.log.warn({ error: messageOf(error) }, 'could not record the activity of a worker'),
    )
    // Not waited for: a lease is renewed whatever becomes of it, and the next heartbeat asks again.
    leaveIfDue(this.#parts.services.calls, id, answer, worker.session.idleMs).catch((error: unknown) =>
      this.#parts.log.warn(
        { error: messageOf(error) },
        'could not check whether a worker may leave its pool',
      ),
    )
    const stale = await this.staleByLane()
    const { lanes, cancels, draining, stopping, peers, shares, resync } = answer
    // A worker whose lane is missing here says with its next cycle what it runs.
    const staleMs = Object.fromEntries((resync ? [] : lanes).map((lane) => [lane, stale.get(lane) ?? 0]))
    return { staleMs, cancels, draining, stopping, peers, shares }
  }

  /** @throws {SluiceError} `WORKER_NOT_FOUND`, `FORBIDDEN` */
  async reportDevices(
    id: string,
    key: WorkerKey,
    readings: readonly DeviceReading[],
  ): Promise<readonly DeviceBudget[]> {
    const worker = await this.get(id, key)
    worker.noteDevices(readings.length)
    return reportDevices(this.#parts.services.calls, id, readings)
  }

  /**
   * Takes back what is assigned to a worker whose main loop is blocked.
   *
   * @throws {SluiceError} `WORKER_NOT_FOUND`, `FORBIDDEN`
   */
  async handBack(id: string, key: WorkerKey, jobs: readonly string[], seen: string): Promise<void> {
    const worker = await this.get(id, key)
    const { epoch, newestClaim } = readSeen(seen)
    await worker.handBack(() => handBack(this.#parts.services.calls, id, jobs, BigInt(newestClaim), epoch))
  }

  /**
   * How many processes of the cores of its host a worker may have, which holds `held` of them.
   *
   * @throws {SluiceError} `WORKER_NOT_FOUND`, `FORBIDDEN`
   */
  async shareProcesses(id: string, key: WorkerKey, held: number): Promise<number> {
    await this.get(id, key)
    return (await shareProcesses(this.#parts.services.calls, id, held)) ?? 0
  }

  /**
   * Gives a worker jobs again of a task that it had withdrawn.
   *
   * @throws {SluiceError} `WORKER_NOT_FOUND`, `FORBIDDEN`
   */
  async restoreTask(id: string, key: WorkerKey, task: string): Promise<void> {
    await this.get(id, key)
    await restoreTask(this.#parts.services.calls, id, task)
  }

  async close(id: string, key: WorkerKey, why: string): Promise<void> {
    const worker = await this.get(id, key)
    worker.close()
    await this.#noteDone(worker)
    await closeRemoteWorker(this.#parts.services.calls, id, why)
    this.#forget(id, worker)
  }

  /**
   * A worker that this key may use, also if it was narrowed since the worker registered.
   *
   * @throws {SluiceError} `WORKER_NOT_FOUND`, `FORBIDDEN`
   */
  async get(id: string, { keyId, runs }: WorkerKey): Promise<RemoteWorker> {
    let known = this.#workers.get(id)
    if (known === undefined) {
      known = this.#load(id)
      this.#workers.set(id, known)
      // Whoever asks next may ask in better times.
      known.catch(() => this.#workers.delete(id))
    }
    // Whoever asks at the same time waits for the same answer, maybe with another key: each is judged by its own.
    const worker = await known
    checkKey(worker, keyId)
    checkWorkerScope(runs, worker, keyId)
    worker.limitLanes(runs.lanes)
    return worker
  }

  async staleByLane(): Promise<ReadonlyMap<string, number>> {
    const now = performance.now()
    if (this.#stale === undefined || now - this.#stale.at > STALE_KEPT_MS) {
      const byLane = loadStale(withRetries(this.#beats))
      this.#stale = { at: now, byLane }
      byLane.catch(() => {
        this.#stale = undefined
      })
    }
    return this.#stale.byLane
  }

  /** Answers everybody who waits: the server is about to stop. */
  drain(): void {
    this.#idlePolls.close()
  }

  stop(): void {
    this.drain()
    this.#unsubscribe()
    clearInterval(this.#sweep)
    for (const worker of this.#workers.values()) worker.then((each) => each.close()).catch(() => {})
  }

  async #load(id: string): Promise<RemoteWorker> {
    const stored = await this.#loads.ask(id)
    if (stored === undefined) throw workerEnded(id)
    const db: Queryable = {
      run: async <R extends Row>(statement: Statement, values: readonly unknown[] = []) =>
        (await this.#reads.ask({ statement, values })) as R[],
    }
    return new RemoteWorker(stored, {
      idlePolls: this.#idlePolls,
      db,
      cycles: this.#cycles,
      resync: (workerId) => this.#resyncs.ask(workerId),
      returns: this.#returns,
      log: this.#parts.log,
      hears: () => this.#parts.services.listener.hears,
    })
  }

  /** All of them have the same tasks. */
  async #register(all: readonly Registration[]): Promise<readonly RegisteredWorker[]> {
    const { tasks, plain, lanes, highestPriority } = all[0]!
    const identities = all.map(({ identity }) => identity)
    return transactWithRetries(this.#parts.services.db, (tx) =>
      registerRemoteWorkers(tx, identities, tasks, plain, { lanes, highestPriority }),
    )
  }

  #noteDone(worker: RemoteWorker): Promise<void> {
    return worker.noteDone((done) => this.#done.ask(done))
  }

  #forget(id: string, worker: RemoteWorker): void {
    worker.close()
    this.#workers.delete(id)
  }

  async #forgetOld(): Promise<void> {
    const before = performance.now() - FORGET_MS
    for (const [id, known] of this.#workers) {
      const worker = await known.catch(() => undefined)
      if (worker !== undefined && worker.usedAt < before) this.#forget(id, worker)
    }
  }
}

function wasNotStarted({ ending }: EndedAttempt): boolean {
  return ending.kind === 'unstarted'
}
