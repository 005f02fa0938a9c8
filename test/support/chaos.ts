import { type ChildProcess, spawn } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { expect } from 'vitest'
import { hasCode, type Sluice, sluice } from '../../src/index.ts'
import { startServer } from '../../src/server/start-server.ts'
import { chooseFault, type Fault, type Victims } from './chaos-faults.ts'
import { query } from './embedded.ts'
import { type RequestProxy, startRequestProxy } from './request-proxy.ts'
import { SeededRandom } from './seeded-random.ts'
import { startProxy, type TcpProxy } from './tcp-proxy.ts'
import { workerKey } from './through-server.ts'
import { until, untilNoneLeft } from './until.ts'
import type { WatchedCommits } from './watched-commits.ts'
import { type TaskSettings, WorkerProcess, type WorkerProcessOptions } from './worker-process.ts'

const SUBMITTER = fileURLToPath(new URL('./programs/submitter.mjs', import.meta.url))
const HEARTBEAT_MS = 200
const STALE_MS = 1000
const LEASES = { heartbeat: HEARTBEAT_MS, stale: STALE_MS }

/** Small enough to bind: the workers together could run twice as much. Two classes share each of the limited lanes. */
const LANES = {
  a: { slots: 10, poll: 200 },
  b: { slots: 7, perWorker: 2, poll: 200 },
  c: { perWorker: 3, poll: 200 },
  d: { perWorker: 3, poll: 200 },
  e: { slots: 16, poll: 200 },
  f: { poll: 200 },
} as const

/** The lanes that the operator resizes and pauses. */
const LIMITED = ['a', 'b', 'c', 'e', 'f'] as const

/** All workers race for the same: they are on one machine, so they share its device. */
const BUDGETS = {
  budgets: { seats: 3, vram: { gpu0: '24GB', maxWait: 300 } },
  models: { small: { load: 20 }, large: { load: 20 } },
} as const
const SEATS = [1, 2, 3, 3, 5]
const RETRY = { retry: { attempts: 3, delay: 20 }, losses: 2 }
const TASKS: Readonly<Record<string, TaskSettings>> = {
  a1: { lane: 'a', ...RETRY },
  a2: { lane: 'a', ...RETRY },
  b1: { lane: 'b', ...RETRY },
  b2: { lane: 'b', ...RETRY },
  c1: { lane: 'c', ...RETRY },
  d1: { lane: 'd', uses: { seats: 1 }, ...RETRY },
  d2: { lane: 'd', model: 'small', uses: { vram: '10GB' }, ...RETRY },
  d3: { lane: 'd', model: 'large', uses: { vram: '16GB', seats: 1 }, ...RETRY },
}
/**
 * Short jobs for workers of their own, with slots for all of them: they are assigned ahead of these slots, unless an operator lowers the limit. The other
 * workers hardly ever assign a job, because their lanes share their capacity and others wait for the slots.
 */
const SHORT_TASKS: Readonly<Record<string, TaskSettings>> = {
  e1: { lane: 'e', ...RETRY },
  e2: { lane: 'e', ...RETRY },
  f1: { lane: 'f', ...RETRY },
}
const SHORT_WORKERS = [['e1', 'e2'], ['e1', 'e2'], ['f1']]
const WORKERS = 8
/** The second of the workers for short jobs is behind a server. The connections of this server fail like those of the workers. */
const isRemote = (place: number) => place === WORKERS + 1
/** So many short jobs come at once: a worker gets through them in some dozens of milliseconds. */
const BURST = 80
/** Both bind. The depth of each task of the submitters leaves room for bursts. */
const ADMISSION = {
  maxActive: 400,
  maxQueued: Object.fromEntries(Object.keys(TASKS).map((name) => [name, 40])),
}
const SLOTS = [null, 0, 1, 3, 5, 7, 10, 12]

export interface ChaosOptions {
  readonly url: string
  readonly commits: WatchedCommits
  readonly seed: number
  readonly seconds: number
  readonly faults: readonly Fault[]
  /** Once the faults end, the survivors get as long as it takes, but not this long without ending a job. */
  readonly stuckMs: number
}

export interface ChaosReport {
  readonly accepted: number
  readonly unknown: number
  readonly workersStarted: number
  readonly faults: Readonly<Record<string, number>>
}

/**
 * Eight workers, three more for short jobs, one of them behind a server, two submitters and an operator at work, while processes are
 * killed and stopped and the network between them and the database fails in
 * every way the proxies know. Then the faults end, and all must come right by itself.
 */
export class Chaos implements Victims {
  readonly random: SeededRandom
  readonly staleMs = STALE_MS
  readonly connections: TcpProxy
  readonly requests: RequestProxy
  readonly #options: ChaosOptions
  readonly #app: Sluice
  readonly #gateway: Gateway
  readonly #workers: WorkerProcess[] = []
  readonly #submitters: ChildProcess[] = []
  readonly #accepted: string[] = []
  readonly #pending = new Map<NodeJS.Timeout, () => void>()
  readonly #faults: Record<string, number> = {}
  #unknown = 0
  #workersStarted = 0
  #ending = false
  #closed = false

  private constructor(
    options: ChaosOptions,
    app: Sluice,
    gateway: Gateway,
    connections: TcpProxy,
    requests: RequestProxy,
  ) {
    this.#options = options
    this.#app = app
    this.#gateway = gateway
    this.connections = connections
    this.requests = requests
    this.random = new SeededRandom(options.seed)
  }

  static async run(options: ChaosOptions): Promise<ChaosReport> {
    const app = await sluice({
      database: options.url,
      ...LEASES,
      lanes: LANES,
      admission: ADMISSION,
      ...BUDGETS,
    })
    const requests = await startRequestProxy(options.url)
    const connections = await startProxy(requests.url)
    const gateway = await openGateway(app, connections.url)
    const chaos = new Chaos(options, app, gateway, connections, requests)
    try {
      await chaos.#begin()
      const end = performance.now() + options.seconds * 1000
      await Promise.all([chaos.#harm(end), chaos.#operate(end), chaos.#rush(end), chaos.#check(end)])
      await chaos.#end()
      await chaos.#verify()
    } finally {
      chaos.#closed = true
      for (const process of [...chaos.#workers.map((worker) => worker.process), ...chaos.#submitters])
        process.kill('SIGKILL')
      await gateway.close()
      await connections.close()
      await requests.close()
      await app.close()
    }
    return {
      accepted: chaos.#accepted.length,
      unknown: chaos.#unknown,
      workersStarted: chaos.#workersStarted,
      faults: chaos.#faults,
    }
  }

  workers(): readonly WorkerProcess[] {
    return this.#workers.filter((worker) => worker.running)
  }

  async stopAssignedWorker(): Promise<WorkerProcess | undefined> {
    if (this.#ending) return undefined
    await this.#submitBurst(this.random.pick(Object.keys(SHORT_TASKS))!)
    for (let tries = 0; tries < 5; tries++) {
      const pids = await this.#assignedPids()
      const worker = this.workers().find(({ pid }) => pids.has(pid))
      if (worker === undefined) continue
      worker.process.kill('SIGSTOP')
      // It may have handed them back since the look. From now on it does not.
      if ((await this.#assignedPids()).has(worker.pid)) return worker
      worker.process.kill('SIGCONT')
    }
    return undefined
  }

  /** Processes of workers that have jobs assigned. */
  async #assignedPids(): Promise<ReadonlySet<number>> {
    const found = await query<{ pid: number }>(
      this.#options.url,
      'select w.pid from sluice.workers w where exists (select 1 from sluice.claims c where c.worker_id = w.id and c.assigned is not null)',
    )
    return new Set(found.map(({ pid }) => pid))
  }

  later(ms: number, act: () => void): void {
    const timer = setTimeout(() => {
      this.#pending.delete(timer)
      act()
    }, ms)
    this.#pending.set(timer, act)
  }

  async #begin(): Promise<void> {
    for (let place = 0; place < WORKERS + SHORT_WORKERS.length; place++) this.#startWorker(place)
    await Promise.all(this.#workers.map((worker) => worker.ready()))
    for (let n = 0; n < 2; n++) this.#startSubmitter(this.#options.seed + n)
    await until(() => this.#accepted.length > 20, 'jobs to be submitted', 120_000)
  }

  /** What a service manager does, too: a worker that ends is started again, half the time under the same name. */
  #startWorker(place: number): void {
    const names = Object.keys(TASKS)
    const short = SHORT_WORKERS[place - WORKERS]
    const served = short ?? (place % 4 === 3 ? names.slice(0, 3) : names)
    const all = Object.entries({ ...TASKS, ...SHORT_TASKS })
    const worker = new WorkerProcess({
      ...(isRemote(place)
        ? { remote: this.#gateway.remote }
        : {
            options: { database: this.connections.url, ...LEASES, lanes: LANES, ...BUDGETS, migrate: false },
          }),
      work: {
        capacity: short === undefined ? 3 + (place % 2) : 6,
        ...(this.random.chance(0.5) && { name: `worker-${place}` }),
        tasks: served,
      },
      // A worker behind a server runs every task that it has.
      tasks: Object.fromEntries(all.filter(([name]) => !isRemote(place) || served.includes(name))),
    })
    this.#workersStarted++
    this.#workers[place] = worker
    void worker.exited.then(() => {
      if (!this.#closed) this.#startWorker(place)
    })
  }

  #startSubmitter(seed: number): void {
    const options = { database: this.connections.url, ...LEASES }
    const most = 60 * this.#options.seconds
    const settings = JSON.stringify({ options, seed, tasks: Object.keys(TASKS), most })
    const submitter = spawn(process.execPath, [SUBMITTER, settings], {
      stdio: ['ignore', 'inherit', 'ignore', 'ipc'],
    })
    submitter.on('message', (message: { kind: string; ids?: string[] }) => {
      this.#accepted.push(...(message.ids ?? []))
      if (message.kind === 'unknown') this.#unknown++
    })
    submitter.on('error', () => {})
    submitter.once('exit', (code) => {
      if (!this.#ending && code !== 0) this.#startSubmitter(seed + 1000)
    })
    this.#submitters.push(submitter)
  }

  async #harm(end: number): Promise<void> {
    while (performance.now() < end) {
      const fault = chooseFault(this.#options.faults, this.random)
      this.#faults[fault.name] = (this.#faults[fault.name] ?? 0) + 1
      // Not awaited: a request to be held may not come for a while.
      void fault.apply(this)
      // The pauses here are the rhythm of the faults, drawn from the seed. Nothing waits for a state by them.
      await delay(this.random.whole(20, 180))
    }
  }

  /** Bursts of short jobs, with pauses in which their workers give back slots and measure them anew. */
  async #rush(end: number): Promise<void> {
    while (performance.now() < end) {
      await this.#submitBurst(this.random.pick(Object.keys(SHORT_TASKS))!)
      await delay(this.random.whole(20, 200))
    }
  }

  async #submitBurst(task: string): Promise<void> {
    const { random } = this
    const inputs = Array.from({ length: BURST }, (): object =>
      random.chance(0.02) ? { fail: 1 } : { sleepMs: random.whole(0, 3) },
    )
    // A job that kills its process, in the midst of others that are assigned to it.
    if (random.chance(0.02)) inputs[BURST / 2] = { die: true }
    // A job is not assigned when its start deadline is less than a second away, so both sides of that bound are drawn. On a busy machine such jobs wait until
    // their deadlines are too near, so others have deadlines that are still far away then.
    const deadline = random.chance(0.7) ? random.whole(1000, random.chance(0.5) ? 3000 : 30_000) : null
    try {
      const jobs = await this.#app.submitMany(task, inputs, { priority: random.whole(-2, 2), deadline })
      this.#accepted.push(...jobs.map(({ id }) => id))
    } catch (error) {
      if (!hasCode(error, 'ADMISSION_REJECTED')) throw error
    }
  }

  async #operate(end: number): Promise<void> {
    while (performance.now() < end) {
      await this.#operateOnce().catch((error: unknown) => {
        // The job has ended meanwhile, or its key was taken, or there is no room for it to run again.
        const expected = ['ILLEGAL_TRANSITION', 'KEY_CONFLICT', 'ADMISSION_REJECTED'] as const
        if (!expected.some((code) => hasCode(error, code))) throw error
      })
      await delay(this.random.whole(10, 80))
    }
  }

  async #operateOnce(): Promise<void> {
    const { random } = this
    const job = random.pick(this.#accepted.slice(-200))
    const lane = random.pick(LIMITED)!
    const task = random.pick(Object.keys(SHORT_TASKS))!
    const dice = random.next()
    if (dice < 0.2) {
      // Mostly what it was: a lane that is closed most of the time proves little.
      await this.#app.setLane(lane, { slots: random.chance(0.5) ? baseSlots(lane) : random.pick(SLOTS)! })
    } else if (dice < 0.25) await this.#app.setLane(lane, { enabled: random.chance(0.7) })
    else if (dice < 0.3) await this.#app.setLane('b', { perWorker: random.pick([1, 2, 3, null])! })
    else if (dice < 0.36) await this.#app.setBudget('seats', { capacity: random.pick(SEATS)! })
    else if (dice < 0.39) await this.#app.setAdmission({ maxActive: random.pick([200, 400, 400, null])! })
    else if (dice < 0.4) await this.#app.cancelMany({ task, status: ['queued'] })
    else if (dice < 0.43) await this.#app.reprioritiseMany({ task, status: ['queued'] }, random.whole(-5, 5))
    else if (job === undefined) return
    else if (dice < 0.55) await this.#app.cancel(job)
    else if (dice < 0.8) await this.#app.reprioritise(job, random.whole(-5, 5))
    else await this.#app.rerun(job)
  }

  /** Reads the commits as they come, so that a long run needs little memory and a violation is told early. */
  async #check(end: number): Promise<void> {
    while (performance.now() < end) {
      const { violations } = await this.#options.commits.catchUp()
      expect(violations.slice(0, 20), `promises broken, seed ${this.#options.seed}`).toEqual([])
      await delay(500)
    }
  }

  /** The faults are over, what was delayed arrives; nobody helps from here on. */
  async #end(): Promise<void> {
    this.#ending = true
    this.requests.forgetHolds()
    for (const submitter of this.#submitters) submitter.kill('SIGKILL')
    for (const connection of this.connections.connections()) connection.delay(0)
    for (const [timer, act] of this.#pending) {
      clearTimeout(timer)
      act()
    }
    for (const lane of LIMITED) await this.#app.setLane(lane, { slots: baseSlots(lane), enabled: true })
  }

  async #verify(): Promise<void> {
    const { url, commits, seed, stuckMs } = this.#options
    const report = async (what: string, text: string): Promise<void> => {
      await untilNoneLeft(async () => (await query(url, text)).length, what, stuckMs).catch(async (error) => {
        console.error(`seed ${seed}`, await query(url, text), await query(url, STANDING))
        throw error
      })
    }
    await report(
      'all jobs to end',
      `select id, task, state, attempt, worker_id from sluice.jobs where state < 'completed'`,
    )
    await report('no slot to be held', 'select * from sluice.holdings where slots > 0')
    const ended = await query<{ id: string }>(url, `select id from sluice.jobs where state >= 'completed'`)
    const known = new Set(ended.map(({ id }) => id))
    expect(
      this.#accepted.filter((id) => !known.has(id)),
      `accepted jobs that are gone, seed ${seed}`,
    ).toEqual([])
    expect(await query(url, 'select * from sluice.repair_orphans_and_drift_v1()'), 'drift').toEqual([])
    expect(await query(url, 'select * from sluice.reconcile_budgets_v1()'), 'drift').toEqual([])
    for (const worker of this.workers()) expect(worker.hasLogged('DRIFT')).toBe(false)
    const { violations } = await commits.catchUp()
    expect(violations.slice(0, 20), `promises broken, seed ${seed}`).toEqual([])
  }
}

/** What the worker behind a server needs of it. */
interface Gateway {
  readonly remote: NonNullable<WorkerProcessOptions['remote']>
  close(): Promise<void>
}

/** A server in this process that reaches the database at this address. The key for its worker is made by a program whose connection does not fail. */
async function openGateway(app: Sluice, database: string): Promise<Gateway> {
  const log = pino({ level: 'silent' })
  const served = await sluice({ database, ...LEASES, lanes: LANES, ...BUDGETS, migrate: false, log })
  const server = await startServer({ app: served, log, host: '127.0.0.1', port: 0, graceMs: 2000 })
  return {
    remote: { server: server.url, key: await workerKey(app), grace: '200ms' },
    async close() {
      await server.stop()
      await served.close()
    },
  }
}

/** For the person who looks for the reason. */
const STANDING = `select w.id, w.name, w.pid, w.ended_at, w.seen_at, h.lane, h.slots, h.epoch, h.wants,
                         (select array_agg(j.id) from sluice.jobs j where j.worker_id = w.id and j.state = 'running') as runs
                    from sluice.workers w left join sluice.holdings h on h.worker_id = w.id where w.ended_at is null`

function baseSlots(lane: (typeof LIMITED)[number]): number | null {
  const declared = LANES[lane]
  return 'slots' in declared ? declared.slots : null
}
