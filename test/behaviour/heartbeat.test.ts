import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import {
  type BeatThread,
  databaseBeats,
  type FromThread,
  Heartbeat,
  type HeartbeatEvents,
  type ThreadData,
} from '../../src/engine/leases/heartbeat.ts'
import type { Log } from '../../src/engine/log.ts'
import { sluice, task } from '../../src/index.ts'
import { AssignedCells } from '../../src/model/assigned-cells.ts'
import { useDatabase } from '../support/database.ts'
import { startRequestProxy } from '../support/request-proxy.ts'
import { plantAssigned, plantHolder, removeHolder } from '../support/state/assigned.ts'
import { startProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const QUIET = { debug() {}, info() {}, warn() {}, error() {} }

interface Heard {
  readonly heartbeatMs: number
  readonly registeredAt?: bigint
  readonly log?: Log
  readonly thread?: BeatThread
  readonly events?: Partial<HeartbeatEvents<unknown>>
}

function startHeartbeat(url: string, { events, ...options }: Heard): Heartbeat<unknown> {
  const heartbeat = new Heartbeat({
    thread: databaseBeats(url, new AssignedCells().buffer),
    workerId: '1',
    registeredAt: process.hrtime.bigint(),
    inlineTasks: [],
    log: QUIET,
    ...options,
    events: { beat() {}, silent() {}, ...events },
  })
  onTestFinished(() => heartbeat.stop())
  return heartbeat
}

test('a beat asked for while one is under way follows it at once', async () => {
  const proxy = await startRequestProxy(database.directUrl)
  onTestFinished(() => proxy.close())
  const isBeat = ({ statement }: { statement: string }) => statement === 'beat'
  const first = proxy.hold(isBeat)
  let beats = 0
  // So far apart that only a beat that was asked for can come in time.
  const heartbeat = startHeartbeat(proxy.url, { heartbeatMs: 60_000, events: { beat: () => beats++ } })

  const held = await first
  // Carried out by the server, not yet answered: it cannot have seen what is announced now.
  expect(await held.deliver()).toBe(true)
  const second = proxy.hold(isBeat)
  heartbeat.now()
  held.pass()
  ;(await second).pass()
  await until(() => beats === 2, 'the second beat to be answered')
})

const SHORT_MS = 200
const DEAF = {
  entry: fileURLToPath(new URL('../support/programs/deaf-thread.mjs', import.meta.url)),
  target: null,
}

test('a new connection whose first beat takes longer than a heartbeat is kept', async () => {
  const proxy = await startRequestProxy(database.directUrl)
  onTestFinished(() => proxy.close())
  let connections = 0
  proxy.takeOver((request) => {
    // The text of the statement is sent once a connection, with the first beat.
    if (request.statement !== 'beat' || request.sql === '') return false
    connections++
    setTimeout(() => request.pass(), 3 * SHORT_MS)
    return true
  })
  let beats = 0
  startHeartbeat(proxy.url, { heartbeatMs: SHORT_MS, events: { beat: () => beats++ } })
  await until(() => beats >= 3, 'three beats')
  expect(connections).toBe(1)
})

test('a beat over a new connection fails after one heartbeat, while the connection has its time', async () => {
  const proxy = await startProxy(database.directUrl)
  onTestFinished(() => proxy.close())
  let connections = 0
  proxy.onConnect((connection) => {
    connections++
    connection.blackhole()
  })
  const tried = new Promise<number>((resolve) => {
    const log = { ...QUIET, warn: () => resolve(connections) }
    startHeartbeat(proxy.url, { heartbeatMs: SHORT_MS, log })
  })
  expect(await tried, 'connections when the first beat failed').toBeLessThan(2)
  await until(() => connections > 1, 'another connection after the one that never answers')
})

test('silence counts from the registration of the worker, not from the start of its heartbeat', async () => {
  const proxy = await startProxy(database.directUrl)
  onTestFinished(() => proxy.close())
  proxy.onConnect((connection) => connection.blackhole())
  const registeredAt = process.hrtime.bigint() - 3_600_000_000_000n
  const silentMs = await new Promise<number>((silent) => {
    startHeartbeat(proxy.url, { heartbeatMs: SHORT_MS, registeredAt, events: { silent } })
  })
  expect(silentMs).toBeGreaterThan(3_600_000)
})

test('silence is noticed while the thread of the heartbeat has not begun', async () => {
  const registered = performance.now()
  const silentMs = await new Promise<number>((silent) => {
    startHeartbeat(database.url, { heartbeatMs: SHORT_MS, thread: DEAF, events: { silent } })
  })
  expect(silentMs).toBeGreaterThan(SHORT_MS)
  expect(silentMs).toBeLessThanOrEqual(performance.now() - registered + SHORT_MS)
})

test('a main loop that stood still while beats got through is not silent', async () => {
  let beats = 0
  const reported: number[] = []
  startHeartbeat(database.directUrl, {
    heartbeatMs: 1000,
    events: { beat: () => beats++, silent: (silentMs) => reported.push(silentMs) },
  })
  await until(() => beats > 0, 'the first beat')
  const before = reported.length
  // The thread beats on; what it said is read only after the watch of this loop.
  const end = performance.now() + 5000
  while (performance.now() < end);
  await new Promise((resolve) => setImmediate(resolve))
  expect(reported.slice(before).filter((silentMs) => silentMs > 3000)).toEqual([])
})

test('a worker claims nothing before its first heartbeat has got through', async () => {
  const proxy = await startRequestProxy(database.directUrl)
  onTestFinished(() => proxy.close())
  const held: (() => void)[] = []
  let open = false
  proxy.takeOver((request) => {
    if (request.statement !== 'beat' || open) return false
    held.push(() => request.pass())
    return true
  })
  const quick = task({ name: 'quick', run: () => 'ran' })
  const app = await sluice({ database: proxy.url, tasks: [quick], heartbeat: 300, stale: 2000 })
  onTestFinished(() => app.close())
  const job = await app.submit(quick, undefined)
  await app.work()
  // By then it would have looked many times.
  await until(() => held.length > 1, 'a second beat, after the first had failed')
  expect((await app.getJob(job.id)).status).toBe('queued')
  open = true
  for (const pass of held) pass()
  expect(await job.result()).toBe('ran')
})

test('heartbeats go on while a claim is locked whose jobs a blocked loop has to give back', async () => {
  const app = await sluice({
    ...{ database: database.url, lanes: { locked: { slots: 4 } } },
    tasks: [task({ name: 'wait', lane: 'locked', run: () => {} })],
  })
  const jobs = await app.submitMany('wait', [undefined, undefined])
  const ids = jobs.map(({ id }) => id)
  const workerId = await plantHolder(database.sql, 'blocked', 'locked')
  await plantAssigned(database.sql, workerId, ids)
  const cells = new AssignedCells()
  // The epoch of the holding.
  cells.note(0, 1)
  for (const id of ids) cells.put(id)
  const waiting = async () =>
    (await database.sql('select 1 from sluice.queue where id = any ($1)', [ids])).length

  const locker = new pg.Client(database.directUrl)
  await locker.connect()
  await locker.query('begin')
  await locker.query('select 1 from sluice.claims where worker_id = $1 for update', [workerId])
  // Nobody counts its ticks, so the thread believes that the loop is blocked.
  const workerData: ThreadData = {
    ...{ target: databaseBeats(database.url, cells.buffer).target, workerId, heartbeatMs: SHORT_MS },
    ...{ taskNames: [], shared: new SharedArrayBuffer(4) },
    goodAt: new BigInt64Array(new SharedArrayBuffer(8)).fill(process.hrtime.bigint())
      .buffer as SharedArrayBuffer,
  }
  const thread = new Worker(databaseBeats('', cells.buffer).entry, { workerData })
  let beats = 0
  thread.on('message', ({ kind }: FromThread) => {
    if (kind === 'beat') beats++
  })
  await until(() => cells.recalls > 0, 'the thread to take the jobs back from the loop')
  const before = beats
  await until(() => beats >= before + 10, 'ten more heartbeats', 20_000)
  expect(await waiting()).toBe(0)

  await locker.query('rollback')
  await until(async () => (await waiting()) === ids.length, 'the jobs to be handed back', 20_000)
  await thread.terminate()
  await locker.end()
  await removeHolder(database.sql, workerId)
  await app.close()
})
