import { expect, type TestContext, test } from 'vitest'
import { Connection } from '../../src/db/connection.ts'
import { Database, type Statement } from '../../src/db/database.ts'
import { Listener } from '../../src/db/listener.ts'
import { type Duration, type Sluice, type SluiceOptions, sluice, task } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { Gate } from '../support/gate.ts'
import { type ProxiedConnection, startProxy, type TcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

// A connection that died without a word: bytes go nowhere, nothing is ever closed. Each test has a database and a proxy
// of its own, and most of its time is waiting for time limits, so all run at once.

interface Place {
  readonly database: TestDatabase
  readonly proxy: TcpProxy
}

async function place({ onTestFinished }: TestContext): Promise<Place> {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  const proxy = await startProxy(database.directUrl)
  onTestFinished(() => proxy.close())
  return { database, proxy }
}

const echo = task({ name: 'echo', run: (input: { n: number }) => input.n })

async function open(
  { onTestFinished }: TestContext,
  url: string,
  options: SluiceOptions = {},
): Promise<Sluice> {
  const silent = { debug() {}, info() {}, warn() {}, error() {} }
  const app = await sluice({
    database: url,
    log: silent,
    tasks: [echo],
    lanes: { default: { poll: '300ms' } },
    ...options,
  })
  onTestFinished(() => app.close())
  return app
}

const ONE: Statement = { name: 'half_open_one', text: 'select 1 as one' }
const LIMIT = { timeout: 240_000 }

// The longest first, so that the others fit beside it.
test.concurrent(
  'a program cut off from everything goes on by itself when the network is back',
  LIMIT,
  async (context) => {
    const { database, proxy } = await place(context)
    const app = await open(context, proxy.url, { heartbeat: '500ms', lanes: allStale('3s') })
    await app.work()
    expect(await (await app.submit(echo, { n: 1 })).result()).toBe(1)
    for (const connection of proxy.connections()) connection.blackhole()
    const back = proxy.onConnect((connection) => connection.blackhole())
    const other = await open(context, database.directUrl, { heartbeat: '500ms', lanes: allStale('3s') })
    const jobs = await other.submitMany(echo, [{ n: 2 }, { n: 3 }, { n: 4 }])
    await until(
      async () =>
        (await database.sql(`select 1 from sluice.workers where seen_at < now() - interval '4 s'`))[0],
      'the worker to be missed',
    )
    back()

    expect(await Promise.all(jobs.map((job) => job.result()))).toEqual([2, 3, 4])
    await until(
      async () => {
        try {
          return (await app.submit(echo, { n: 5 })) !== undefined
        } catch {
          return false
        }
      },
      'the program to submit again',
      60_000,
    )
  },
)

test.concurrent(
  'a pool whose connections all went silent works again after one time limit',
  LIMIT,
  async (context) => {
    const { proxy } = await place(context)
    const db = new Database({
      url: proxy.url,
      maxConnections: 3,
      applicationName: 'pool',
      statementTimeoutMs: 2000,
    })
    const ask = () => Promise.allSettled([1, 2, 3].map(() => db.run(ONE)))
    expect((await ask()).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled'])
    for (const connection of proxy.connections('pool')) connection.blackhole()

    const started = performance.now()
    expect((await ask()).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    expect(performance.now() - started).toBeLessThan(10_000)
    expect((await ask()).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled'])
    expect(db.connections).toBe(3)
    await db.close()
    await until(() => proxy.connections('pool').length === 0, 'every socket to be closed')
  },
)

test.concurrent(
  'a transaction on a connection that went silent ends, before and after its first word',
  LIMIT,
  async (context) => {
    const { proxy } = await place(context)
    const db = new Database({
      url: proxy.url,
      maxConnections: 1,
      applicationName: 'tx',
      statementTimeoutMs: 300,
    })
    await db.run(ONE)
    proxy.connections('tx')[0]!.blackhole()
    await expect(db.transaction((tx) => tx.run(ONE))).rejects.toThrow('timeout')
    const lostCommit = db.transaction(async (tx) => {
      await tx.run(ONE)
      proxy.connections('tx')[0]!.blackhole()
    })
    await expect(lostCommit).rejects.toThrow('timeout')
    expect(await db.transaction((tx) => tx.run(ONE))).toEqual([{ one: 1 }])
    await db.close()
  },
)

test.concurrent('workflows go on without hints, and not at the pace of upkeep', LIMIT, async (context) => {
  const { proxy } = await place(context)
  proxy.onConnect((connection) => {
    if (connection.applicationName === 'sluice-listen') connection.blackhole()
  })
  const names = ['a', 'b', 'c', 'd', 'e']
  const steps = Object.fromEntries(
    names.map((name, at) => [
      name,
      { task: 'echo', needs: names.slice(Math.max(0, at - 1), at), with: { n: at } },
    ]),
  )
  const app = await open(context, proxy.url, { workflows: [{ name: 'five', definition: { steps } }] })
  await app.work()
  // Upkeep looks every 1.5 s: six decisions would take 9 s each time. Other things take time too, but not each time.
  let tookMs = Number.POSITIVE_INFINITY
  for (let n = 0; n < 3 && tookMs > 5000; n++) {
    const started = performance.now()
    await (await app.submit('five', null)).result()
    tookMs = performance.now() - started
  }
  expect(tookMs).toBeLessThan(5000)
})

test.concurrent(
  'a process that stands still in a transaction holds up nobody for long',
  LIMIT,
  async (context) => {
    const { database } = await place(context)
    const app = await open(context, database.directUrl, { admission: { maxActive: 10 } })
    const db = new Database({ url: database.directUrl, maxConnections: 1, applicationName: 'frozen' })
    let wake = () => {}
    const asleep = new Promise<void>((resolve) => {
      wake = resolve
    })
    let locked = false
    const frozen = db.transaction(async (tx) => {
      await tx.run({ name: 'half_open_lock', text: 'select 1 from sluice.admission for update' })
      locked = true
      await asleep
    })
    await until(() => locked, 'the lock')
    const started = performance.now()
    await app.submit(echo, { n: 1 })
    expect(performance.now() - started).toBeLessThan(20_000)
    wake()
    await expect(frozen).rejects.toThrow()
    await db.close()
  },
)

test.concurrent('closing does not wait for connections that went silent', LIMIT, async (context) => {
  const { proxy } = await place(context)
  const db = new Database({ url: proxy.url, maxConnections: 2, applicationName: 'idle' })
  await db.run(ONE)
  const single = new Connection({ url: proxy.url, applicationName: 'single', timeoutMs: 30_000 })
  await single.run(ONE)
  const listener = new Listener(proxy.url)
  const heard = new Promise((resolve) => listener.subscribe(resolve))
  listener.start()
  await heard
  for (const connection of proxy.connections()) connection.blackhole()

  const started = performance.now()
  await Promise.all([db.close(), single.close(), listener.stop()])
  expect(performance.now() - started).toBeLessThan(10_000)
  await until(() => proxy.connections().length === 0, 'every socket to be closed')
})

test.concurrent('a program that reaches a server which never answers says so', LIMIT, async (context) => {
  const { proxy } = await place(context)
  proxy.onConnect((connection) => connection.blackhole())
  await expect(sluice({ database: proxy.url })).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
})

test.concurrent(
  'a program whose server falls silent in the middle of its start says so',
  LIMIT,
  async (context) => {
    const { database } = await place(context)
    const proxy = await startFaultProxy(database.directUrl, () => ({ when: 'before', how: 'silence' }))
    context.onTestFinished(() => proxy.close())
    await expect(sluice({ database: proxy.url })).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
  },
)

test.concurrent(
  'a worker whose cycle connection went silent goes on within its time limit',
  LIMIT,
  async (context) => {
    const { database, proxy } = await place(context)
    const app = await open(context, proxy.url)
    await app.work({ capacity: 2 })
    expect(await (await app.submit(echo, { n: 1 })).result()).toBe(1)
    for (const connection of proxy.connections('sluice-cycle')) connection.blackhole()

    const started = performance.now()
    const job = await app.submit(echo, { n: 2 })
    expect(await job.result()).toBe(2)
    expect(performance.now() - started).toBeLessThan(30_000)
    expect(await database.sql('select attempt, losses from sluice.jobs where id = $1', [job.id])).toEqual([
      { attempt: 1, losses: 0 },
    ])
  },
)

test.concurrent(
  'a claim whose answer never arrives is adopted: no attempt is burned',
  LIMIT,
  async (context) => {
    const { database, proxy } = await place(context)
    // It looks for work only when told: the next thing it says is the claim.
    const app = await open(context, proxy.url, { lanes: { default: { poll: '10m' } } })
    await app.work({ capacity: 2 })
    expect(await (await app.submit(echo, { n: 1 })).result()).toBe(1)
    const [cycle] = proxy.connections('sluice-cycle')
    await quiet(cycle!)
    cycle!.blackhole('answers')

    const job = await app.submit(echo, { n: 2 })
    await until(
      async () =>
        (await database.sql(`select 1 from sluice.jobs where id = $1 and attempt = 1`, [job.id]))[0],
      'the claim to be committed',
    )
    expect(cycle!.open).toBe(true)
    expect(await job.result()).toBe(2)
    expect(await database.sql('select attempt, losses from sluice.jobs where id = $1', [job.id])).toEqual([
      { attempt: 1, losses: 0 },
    ])
  },
)

test.concurrent(
  'a job whose claim is answered when its lease may have ended is not begun',
  LIMIT,
  async (context) => {
    const { database, proxy } = await place(context)
    const begun: string[] = []
    const warned: string[] = []
    const log = { debug() {}, info() {}, error() {}, warn: (_: object, text: string) => warned.push(text) }
    const by = (who: string) =>
      task({ name: 'noted', run: (_: null, { attempt }) => begun.push(`${who} ${attempt}`) })
    const settings = { heartbeat: '500ms', lanes: allStale('3s', '10m') } as const
    const app = await open(context, proxy.url, { ...settings, tasks: [by('cut')], log })
    await app.work()
    await (await app.submit('noted', null)).result()
    const [cycle] = proxy.connections('sluice-cycle')
    await quiet(cycle!)
    // Each way. The limit of a cycle is 15 s.
    cycle!.delay(7000)

    const job = await app.submit('noted', null)
    const claimed = () => database.sql('select 1 from sluice.jobs where id = $1 and attempt = 1', [job.id])
    await until(async () => (await claimed())[0], 'the claim to be committed')
    const heal = proxy.onConnect((connection) => connection.blackhole())
    for (const connection of proxy.connections('sluice-heartbeat')) connection.blackhole()
    const other = await open(context, database.directUrl, { ...settings, tasks: [by('other')] })
    await other.work()

    await until(() => warned.some((text) => text.startsWith('jobs arrived while')), 'the late answer')
    expect(await other.job(job.id).result()).toBe(2)
    expect(begun).toEqual(['cut 1', 'other 2'])
    await other.close()
    heal()
    expect(await (await app.submit('noted', null)).result({ timeout: '30s' })).toBe(3)
  },
)

test.concurrent(
  'a LISTEN connection that went silent costs one poll, and is replaced',
  LIMIT,
  async (context) => {
    const { database, proxy } = await place(context)
    const app = await open(context, proxy.url)
    await app.work()
    expect(await (await app.submit(echo, { n: 1 })).result()).toBe(1)
    const [deaf] = await until(() => {
      const listening = proxy.connections('sluice-listen')
      return listening.length > 0 && listening
    }, 'somebody to listen')
    deaf!.blackhole()

    const other = await open(context, database.directUrl)
    const started = performance.now()
    const job = await other.submit(echo, { n: 2 })
    await until(
      async () => (await other.getJob(job.id)).state === 'completed',
      'the job to be found by polling',
    )
    expect(performance.now() - started).toBeLessThan(5000)

    await until(() => proxy.connections('sluice-listen').some((each) => each !== deaf), 'another LISTEN')
    // From here on only a hint can be in time.
    await other.setLane('default', { poll: '10m' })
    await until(async () => (await (await other.submit(echo, { n: 3 })).result()) === 3, 'a hint to be heard')
  },
)

test.concurrent(
  'a heartbeat connection that went silent is replaced before any lease ends',
  LIMIT,
  async (context) => {
    const { database, proxy } = await place(context)
    const gate = new Gate()
    const held = task({ name: 'held', run: () => gate.pass() })
    const app = await open(context, proxy.url, { tasks: [held], heartbeat: '500ms', lanes: allStale('5s') })
    await app.work()
    const job = await app.submit(held, undefined)
    await gate.arrived()
    await beat(database)
    for (const connection of proxy.connections('sluice-heartbeat')) connection.blackhole()
    await beat(database)
    gate.open()
    await job.result()
    expect(await database.sql('select attempt, losses from sluice.jobs where id = $1', [job.id])).toEqual([
      { attempt: 1, losses: 0 },
    ])
  },
)

test.concurrent(
  'a worker that hears no hint learns of new lanes and classes from its heartbeat',
  LIMIT,
  async (context) => {
    const { database, proxy } = await place(context)
    proxy.onConnect((connection) => {
      if (connection.applicationName === 'sluice-listen') connection.blackhole()
    })
    const slow = allStale('5s', '10m')
    const app = await open(context, proxy.url, { heartbeat: '500ms', lanes: slow })
    await app.work()
    await quiet(proxy.connections('sluice-cycle')[0]!)

    const other = await open(context, database.directUrl, {
      heartbeat: '500ms',
      lanes: { ...slow, express: { poll: '10m', stale: '5s' } },
    })
    const job = await other.submit(echo, { n: 2 }, { lane: 'express' })
    expect(await job.result()).toBe(2)
  },
)

/** Waits for a heartbeat that is later than now. */
async function beat(database: TestDatabase): Promise<void> {
  const [row] = await database.sql<{ now: Date }>('select clock_timestamp() as now')
  const later = () => database.sql('select 1 from sluice.workers where seen_at > $1', [row!.now])
  await until(async () => (await later()).length > 0, 'a heartbeat')
}

/** Waits until nothing has been said for a second. */
async function quiet(connection: ProxiedConnection): Promise<void> {
  let [said, since] = [-1, 0]
  await until(() => {
    if (connection.bytes.requests !== said) [said, since] = [connection.bytes.requests, performance.now()]
    return performance.now() - since > 1000
  }, 'the connection to fall quiet')
}

function allStale(stale: Duration, poll: Duration = '300ms'): NonNullable<SluiceOptions['lanes']> {
  const names = ['default', 'interactive', 'maintenance', 'system']
  return Object.fromEntries(names.map((name) => [name, { stale, poll }]))
}
