import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { Connection } from '../../src/db/connection.ts'
import { Database } from '../../src/db/database.ts'
import { type Sluice, sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { SessionByHand } from '../support/session-by-hand.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

// How many cycles the children of a window take. They once took several each: a slot that became free waited for a hint or a poll, and six slots ran 37
// children of 40 ms a second instead of 150. Workers are sessions without a process, and each cycle is made by hand, so no time is measured.

const database = useDatabase()
useCommitChecker(database)

const SLOTS = 6
const CHILDREN = 60
/** What each worker runs when all slots are in use. */
const SHARES: Readonly<Record<number, readonly number[]>> = { 1: [6], 5: [2, 1, 1, 1, 1] }

let app: Sluice
let db: Database
const connections: Connection[] = []

beforeAll(async () => {
  const child = task({ name: 'child', lane: 'window', run: () => null })
  app = await sluice({
    database: database.url,
    // Nobody sends heartbeats.
    ...{ heartbeat: '1m', stale: '10m' },
    tasks: [child],
    workflows: [6, 8, CHILDREN].map((concurrency) => ({
      name: `window-${concurrency}`,
      definition: { steps: { each: { task: 'child', with_items: '${{ input.items }}', concurrency } } },
    })),
    lanes: { window: { slots: SLOTS, perWorker: null } },
  })
  app.startDuties()
  db = new Database({ url: database.url, maxConnections: 2, applicationName: 'window' })
})
afterAll(async () => {
  await Promise.all(connections.map((each) => each.close()))
  await db.close()
  await app.close()
})

class ByHand {
  readonly #session: SessionByHand
  running: { id: string; attempt: number }[] = []

  private constructor(session: SessionByHand) {
    this.#session = session
  }

  static async open(): Promise<ByHand> {
    const connection = new Connection({ url: database.url, applicationName: 'window', timeoutMs: 15_000 })
    connections.push(connection)
    const about = { name: 'w', host: 'h', pid: 1, version: '0', cores: 2, labels: {} }
    const identity = { ...about, capacity: SLOTS, tasks: ['child'] }
    const session = await SessionByHand.open({ db, connection, identity })
    const made = new ByHand(session)
    onTestFinished(async () => {
      await made.endAll(0)
      await session.close('the test is over')
    })
    return made
  }

  /** Takes as many jobs as it is given of these. */
  async take(free: number): Promise<void> {
    const { assignments } = await this.#session.cycle([], free, 0)
    this.running.push(...assignments)
  }

  /** Ends all that it runs, and asks for as many others. @returns how many it ended and was given. */
  async endAll(free = SLOTS): Promise<{ readonly ended: number; readonly given: number }> {
    const ended = this.running.map(({ id, attempt }) => ({
      ...{ id, attempt },
      ending: { kind: 'completed' as const, result: 'null' },
    }))
    this.running = []
    await this.#session.cycle(ended, free, 0).then(({ assignments }) => this.running.push(...assignments))
    return { ended: ended.length, given: this.running.length }
  }
}

test.for([
  [1, 6],
  [1, 8],
  [1, CHILDREN],
  [5, 6],
  [5, 8],
  [5, CHILDREN],
] as const)(
  'the cycle that ends children starts as many others: %i workers with a window of %i on a lane of 6 slots',
  async ([count, width]) => {
    const run = await app.submit(`window-${width}`, { items: Array.from({ length: CHILDREN }, (_, n) => n) })
    onTestFinished(async () => void (await app.cancel(run.id).catch(() => undefined)))
    const ready = `select 1 from sluice.queue q join sluice.classes c on c.id = q.class_id where c.task = 'child' and q.state = 'ready'`
    await until(async () => (await database.sql(ready)).length === width, 'the window to open')
    const workers: ByHand[] = []
    for (const share of SHARES[count]!) {
      const worker = await ByHand.open()
      workers.push(worker)
      // Those that come later first leave the jobs to those before them.
      await until(async () => {
        await worker.take(share - worker.running.length)
        return worker.running.length === share
      }, 'the worker to be given jobs')
    }
    let started = SLOTS
    const cycles: { readonly ended: number; readonly given: number }[] = []
    while (started < CHILDREN) {
      for (const worker of workers) {
        const { ended, given } = await worker.endAll()
        cycles.push({ ended, given })
        expect(given, JSON.stringify(cycles)).toBe(Math.min(ended, CHILDREN - started))
        started += given
      }
    }
    for (const worker of workers) await worker.endAll()
    expect(await run.result()).toHaveProperty('each.length', CHILDREN)
  },
)
