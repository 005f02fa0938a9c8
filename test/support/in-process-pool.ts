import { afterEach } from 'vitest'
import { FleetKeeper } from '../../src/fleet/fleet-keeper.ts'
import {
  type Provisioner,
  provisionerFailed,
  type Started,
  type StartRequest,
} from '../../src/fleet/provisioner.ts'
import { type Log, type Sluice, type SluiceOptions, sluice, task } from '../../src/index.ts'
import type { Apps } from './apps.ts'
import type { TestDatabase } from './database.ts'
import { Gate } from './gate.ts'

const silent: Log = { debug() {}, info() {}, warn() {}, error() {} }

/** Workers in this process, each an application of its own. */
export class InProcess implements Provisioner {
  readonly calls: StartRequest[] = []
  readonly stopped: string[] = []
  readonly workers: Sluice[] = []
  stopFailures = 0
  stopHangs = false
  describeHangs = false
  describes = 0
  complaint = 'too many calls'
  behave: 'start' | 'fail' | 'hang' | 'never come' | 'answer late' = 'start'
  /** What it says it started, whatever it did. */
  says: Started['instances'] | undefined
  readonly answers = new Gate()
  readonly #options: SluiceOptions & { readonly database: string }
  #starting: Promise<unknown> = Promise.resolve()

  constructor(options: SluiceOptions & { readonly database: string }) {
    this.#options = options
  }

  async start(request: StartRequest): Promise<Started> {
    this.calls.push(request)
    if (this.behave === 'hang') return new Promise(() => {})
    const starting = this.#start(request)
    this.#starting = starting.catch(() => {})
    return starting
  }

  async #start(request: StartRequest): Promise<Started> {
    if (this.behave === 'fail') throw provisionerFailed('throttled', this.complaint)
    if (this.behave === 'answer late') await this.answers.pass()
    const instances = request.members.map((member) => ({ member, id: `i-${member}` }))
    if (this.behave === 'start') for (const { member } of instances) await this.come(request, member)
    return { instances: this.says ?? instances, failures: [] }
  }

  async come({ token, pool, capacity }: StartRequest, member: number): Promise<void> {
    const app = await sluice({ log: silent, ...this.#options })
    this.workers.push(app)
    await app.work({ capacity, inPool: pool, request: `${token}.${member}`, name: `${pool}-${member}` })
  }

  async describe(ids: readonly string[]) {
    this.describes++
    if (this.describeHangs) return new Promise<never>(() => {})
    return ids.map((id) => ({ id, state: 'starting' as const }))
  }

  async stop(ids: readonly string[]): Promise<void> {
    if (this.stopHangs) return new Promise<never>(() => {})
    if (this.stopFailures-- > 0) throw provisionerFailed('throttled', 'too many calls')
    this.stopped.push(...ids)
  }

  async close(): Promise<void> {
    await this.#starting
    await Promise.all(this.workers.splice(0).map((app) => app.close()))
  }
}

/**
 * A pool `burst` whose workers are applications in this process, and who decides for it. After each test its jobs and pools are gone.
 *
 * Jobs of `work` run until the gate that `held` gives is opened, or the test is over.
 */
export function useInProcessPool(database: TestDatabase, apps: Apps) {
  let held = new Gate()
  const work = task({ name: 'work', run: (_: null) => held.pass() })
  const OPTIONS: SluiceOptions = { tasks: [work], heartbeat: '300ms', stale: '2s' }
  const keepers: FleetKeeper[] = []

  afterEach(async () => {
    held.open()
    await Promise.all(keepers.splice(0).map((keeper) => keeper.stop()))
    await database.sql(
      `update sluice.jobs set state = 'cancelled', error = 'over', finished_at = now() where state < 'running'`,
    )
    await database.sql('delete from sluice.pools')
  })

  return {
    work,
    OPTIONS,
    held: () => held,
    async openPool(pool: object, options: SluiceOptions = OPTIONS) {
      held = new Gate()
      const fleet = { pools: { burst: { cooldown: '0s', ...pool } } }
      const app = await apps.open({ ...options, fleet })
      const provisioner = new InProcess({ ...options, database: database.url })
      const keeper = (more: object = {}) => {
        const made = new FleetKeeper({
          db: app.services.db,
          log: silent,
          name: 'test',
          provisioners: new Map([['burst', provisioner]]),
          momentMs: 0,
          ...more,
        })
        keepers.push(made)
        return made
      }
      return { app, provisioner, keeper }
    },
    live: () =>
      database
        .sql<{ count: number }>('select count(*)::integer from sluice.workers where ended_at is null')
        .then((rows) => rows[0]!.count),
  }
}

export const decisions = (app: Sluice) => app.fleet().then((view) => view.decisions)
