import pg from 'pg'
import { expect, test } from 'vitest'
import { type Sluice, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { restedForMs } from '../support/state/workers.ts'
import { startProxy, type TcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

// Behind a pooler no hint arrives.
const database = useDatabase({ direct: true })
const apps = useApps(database)

const POLL_MS = 500
/** The poll with its jitter, and a little for a busy machine. */
const ONE_POLL_MS = 1.1 * POLL_MS + 400
const echo = task({ name: 'echo', lane: 'polled', run: (n: number) => n })
const lanes = { polled: { slots: 5, poll: POLL_MS } }

/** A worker behind a proxy, and a producer that reaches the database directly. */
async function withProxy(
  work: (parts: { producer: Sluice; worker: Sluice; proxy: TcpProxy }) => Promise<void>,
): Promise<void> {
  const proxy = await startProxy(database.url)
  try {
    const producer = await apps.open({ tasks: [echo], lanes })
    const worker = await apps.open({ tasks: [echo], database: proxy.through(database.url) })
    await worker.work({ capacity: 5 })
    await until(() => proxy.connections('sluice-listen').length === 1, 'the worker to listen')
    try {
      await work({ producer, worker, proxy })
    } finally {
      await worker.close()
    }
  } finally {
    await proxy.close()
  }
}

/** How long a job that could start waited until it did. */
async function waitOf(app: Sluice, n: number): Promise<number> {
  const job = await app.submit(echo, n)
  expect(await job.result()).toBe(n)
  const { readyAt, startedAt } = await app.getJob(job.id)
  return startedAt!.getTime() - readyAt.getTime()
}

test('a listening connection that is half-open costs at most one poll', async () => {
  await withProxy(async ({ producer, proxy }) => {
    await waitOf(producer, 0)
    for (const connection of proxy.connections('sluice-listen')) connection.blackhole()

    const waits: number[] = []
    for (let n = 1; n <= 5; n++) waits.push(await waitOf(producer, n))

    expect(waits.filter((wait) => wait > ONE_POLL_MS).length, `waits of ${waits} ms`).toBeLessThan(2)
  })
})

/** Far less than the poll of a lane that only hints make quick, and enough for a busy machine. */
const HINTED_MS = 10_000
const hinted = task({ name: 'hinted', lane: 'hinted', run: (n: number) => n })
const HINTED = { tasks: [hinted], lanes: { hinted: { perWorker: 5, poll: 30_000 } } }

/**
 * Two jobs: the first may be found by a poll that happens to be due, the second not. Each comes when the worker rests, since one that
 * has just begun, or has just had a job, looks again by itself.
 */
async function expectHints(producer: Sluice): Promise<void> {
  for (const n of [1, 2]) {
    await until(async () => (await restedForMs(database.sql)) > 500, 'the worker to rest')
    const job = await producer.submit(hinted, n)
    expect(await job.result()).toBe(n)
    const { readyAt, startedAt } = await producer.getJob(job.id)
    expect(startedAt!.getTime() - readyAt.getTime(), `wait of job ${n}`).toBeLessThan(HINTED_MS)
  }
}

test('a hint starts a job long before the poll would', { timeout: 240_000 }, async () => {
  const producer = await apps.open(HINTED)
  const worker = await apps.open(HINTED)
  await worker.work()
  await expectHints(producer)
})

test('a listening connection that breaks is opened again, and hints are heard again', {
  timeout: 240_000,
}, async () => {
  const proxy = await startProxy(database.url)
  const producer = await apps.open(HINTED)
  const worker = await apps.open({ ...HINTED, database: proxy.through(database.url) })
  await worker.work()
  try {
    await until(() => proxy.connections('sluice-listen').length === 1, 'the worker to listen')
    const first = proxy.connections('sluice-listen')[0]!
    first.cut()
    await until(() => proxy.connections('sluice-listen').some((each) => each !== first), 'a new connection')
    await expectHints(producer)
  } finally {
    await worker.close()
    await proxy.close()
  }
})

test('a server that lets nobody listen slows the start of jobs to the poll, no more', async () => {
  const proxy = await startProxy(database.url)
  proxy.onConnect((connection) => {
    if (connection.applicationName === 'sluice-listen') connection.cut()
  })
  const producer = await apps.open({ tasks: [echo], lanes })
  const worker = await apps.open({ tasks: [echo], database: proxy.through(database.url) })
  await worker.work()
  try {
    const waits: number[] = []
    for (let n = 1; n <= 5; n++) waits.push(await waitOf(producer, n))
    expect(waits.filter((wait) => wait > ONE_POLL_MS).length, `waits of ${waits} ms`).toBeLessThan(2)
  } finally {
    await worker.close()
    await proxy.close()
  }
})

test('a change of a lane and a cancel get through without hints, by poll and heartbeat', async () => {
  const proxy = await startProxy(database.url)
  proxy.onConnect((connection) => {
    if (connection.applicationName === 'sluice-listen') connection.blackhole()
  })
  const long = task({
    name: 'long',
    lane: 'switched',
    run: (_: unknown, ctx) =>
      new Promise<void>((_, reject) => {
        ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason))
      }),
  })
  const options = {
    tasks: [long],
    lanes: { switched: { slots: 1, poll: 200, enabled: false } },
    heartbeat: 300,
  }
  const producer = await apps.open(options)
  const worker = await apps.open({ ...options, database: proxy.through(database.url) })
  await worker.work()
  try {
    const job = await producer.submit(long, null)
    await producer.setLane('switched', { enabled: true })
    await until(async () => (await producer.getJob(job.id)).status === 'running', 'the job to start', 5000)
    await producer.cancel(job.id)
    await expect(job.result()).rejects.toMatchObject({ code: 'JOB_CANCELLED' })
  } finally {
    await worker.close()
    await proxy.close()
  }
})

test('hints are merged: a thousand submissions at once send a few, and jobs of a transaction one', async () => {
  const idle = task({ name: 'idle', lane: 'polled', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [idle], lanes })
  const hints: (string | undefined)[] = []
  const client = new pg.Client(database.directUrl)
  client.on('notification', (message) => hints.push(message.payload))
  await client.connect()
  try {
    await client.query('listen sluice')
    await Promise.all(Array.from({ length: 1000 }, (_, n) => app.submit(idle, n)))
    await client.query('select 1')
    expect(hints.filter((hint) => hint === 'ready').length).toBeGreaterThan(0)
    expect(hints.length).toBeLessThan(100)

    hints.length = 0
    await client.query('begin')
    for (let n = 0; n < 20; n++) await app.submit(idle, n, { transaction: client })
    expect(hints).toEqual([])
    await client.query('commit')
    await client.query('select 1')
    expect(hints).toEqual(['ready'])
  } finally {
    await client.end()
    await database.sql(`delete from sluice.jobs where task = 'idle'`)
  }
})

test('announces a retried workflow to the processes that advance workflows', async () => {
  const idle = task({ name: 'idle', lane: 'polled', run: (_: unknown) => null })
  const workflows = [{ name: 'pair', definition: { steps: { one: { task: 'idle' } } } }]
  const app = await apps.open({ tasks: [idle], workflows, lanes })
  const job = await app.submit('pair', {})
  await app.cancel(job.id)
  await app.work()
  await until(async () => (await app.getJob(job.id)).finishedAt !== null, 'the workflow to end')
  await app.stopWorking()
  const hints: (string | undefined)[] = []
  const client = new pg.Client(database.directUrl)
  client.on('notification', (message) => hints.push(message.payload))
  await client.connect()
  try {
    await client.query('listen sluice')
    // Nobody works, so nothing but the retry can send one.
    await app.retry(job.id, { failed: true })
    await client.query('select 1')
    expect(hints).toContain('wake')
  } finally {
    await client.end()
    await app.work()
    await job.result()
  }
})
