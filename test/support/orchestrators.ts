import { expect } from 'vitest'
import { type Sluice, sluice, task } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from './database.ts'
import {
  type HeldRequest,
  type ProxiedRequest,
  type RequestProxy,
  startRequestProxy,
} from './request-proxy.ts'
import { endMoments, readTree } from './trees.ts'
import { until } from './until.ts'
import { WatchedCommits } from './watched-commits.ts'
import { HEARTBEAT_MS, STALE_MS, WorkerProcess } from './worker-process.ts'

/** Steps of every kind, one after the other. Each leaf tells the attempt it ran as. */
const JOURNEY = {
  steps: {
    first: { task: 'act', with: {} },
    fan: {
      task: 'act',
      needs: ['first'],
      with_items: '${{ range(5) }}',
      concurrency: 2,
      with: {},
      strategy: { atLeast: 5, of: 'leaves' },
    },
    group: { needs: ['fan'], steps: { inner: { workflow: 'part' } } },
  },
  output: '${{ steps.fan.results.size() + steps.group.result.inner.size() }}',
}
const PART = { steps: { last: { task: 'act', with: {} } } }

const LANES = { default: { poll: '100ms', perWorker: null } } as const
const LEASES = { heartbeat: HEARTBEAT_MS, stale: STALE_MS }

/** What a process sends between the ending of a child and that of its parent. */
export const ORCHESTRATION = [
  'run_cycle',
  'take_composites',
  'load_graphs',
  'load_outcomes',
  'count_leaves',
  'apply_advances',
] as const

/**
 * A database, a workflow in it, and a process that runs it by itself: whatever is to happen to that process is caught
 * on its way to the database.
 */
export class Orchestration {
  readonly database: TestDatabase
  readonly proxy: RequestProxy
  readonly commits: WatchedCommits
  readonly app: Sluice
  readonly #workflows: readonly { readonly name: string; readonly definition: unknown }[]
  readonly #processes: WorkerProcess[] = []
  readonly #drop: () => Promise<void>

  private constructor(
    database: TestDatabase & { drop(): Promise<void> },
    proxy: RequestProxy,
    commits: WatchedCommits,
    app: Sluice,
    workflows: readonly { readonly name: string; readonly definition: unknown }[],
  ) {
    this.database = database
    this.#drop = () => database.drop()
    this.proxy = proxy
    this.commits = commits
    this.app = app
    this.#workflows = workflows
  }

  static async open(
    workflows: readonly { readonly name: string; readonly definition: unknown }[] = [
      { name: 'journey', definition: JOURNEY },
      { name: 'part', definition: PART },
    ],
  ): Promise<Orchestration> {
    const database = await createDatabase()
    const commits = await WatchedCommits.open(database.directUrl)
    const proxy = await startRequestProxy(database.url)
    const act = task({ name: 'act', run: (_: unknown, ctx) => ({ attempt: ctx.attempt }) })
    const silent = () => {}
    const log = { debug: silent, info: silent, warn: silent, error: silent }
    const app = await sluice({
      database: database.url,
      ...LEASES,
      log,
      tasks: [act],
      workflows,
      lanes: LANES,
    })
    return new Orchestration(database, proxy, commits, app, workflows)
  }

  /** A process that works and advances, through the proxy. */
  async start(): Promise<WorkerProcess> {
    const worker = new WorkerProcess({
      options: { database: this.proxy.url, workflows: this.#workflows, lanes: LANES },
      work: { capacity: 20 },
    })
    this.#processes.push(worker)
    await worker.ready()
    return worker
  }

  /** Kills a process as it sends what `matches`: before the server hears of it, or once it has been carried out. */
  async killAt(
    worker: WorkerProcess,
    when: 'before' | 'after',
    matches: (request: ProxiedRequest) => boolean,
  ): Promise<void> {
    const held: HeldRequest = await this.proxy.hold(matches)
    if (when === 'after') await held.deliver()
    await worker.kill()
    held.close()
  }

  /** Another process goes on; what the dead one had taken is free at once. */
  async survive(): Promise<void> {
    this.proxy.forgetHolds()
    await endMoments(this.database.sql)
    await this.app.work({ capacity: 50 })
  }

  /** Nothing is left, nothing was done twice, and no promise was broken by a commit on the way. */
  async expectDone(root: string): Promise<void> {
    const tree = await readTree(this.database.sql, root)
    expect(tree.filter(({ state }) => state !== 'completed')).toEqual([])
    await until(
      async () => (await this.database.sql('select 1 from sluice.wakeups limit 1')).length === 0,
      'every wake-up to be taken',
    )
    const { violations } = await this.commits.catchUp()
    expect(violations).toEqual([])
  }

  async close(): Promise<void> {
    for (const worker of this.#processes) if (worker.running) await worker.kill()
    await this.app.close()
    await this.proxy.close()
    await this.commits.close()
    await this.#drop()
  }
}

/** Runs the journey, kills its process at one point, and lets another one go on. */
export async function killOnTheWay(
  when: 'before' | 'after',
  matches: (request: ProxiedRequest) => boolean,
): Promise<void> {
  const scene = await Orchestration.open()
  try {
    const worker = await scene.start()
    let submitted = false
    const killed = scene.killAt(worker, when, (request) => submitted && matches(request))
    submitted = true
    const job = await scene.app.submit('journey', null, { key: 'once' })
    const ended = until(
      async () => (await scene.app.getJob(job.id)).state === 'completed',
      'the end without a kill',
      30_000,
    )
    ended.catch(() => {})
    await Promise.race([killed, ended])
    await scene.survive()
    expect(await job.result()).toBe(6)
    await scene.expectDone(job.id)
    expect(worker.running, 'what was to be killed goes on: the statement was not sent').toBe(false)
  } finally {
    await scene.close()
  }
}
