import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import {
  type BeatThread,
  databaseBeats,
  Heartbeat,
  type HeartbeatEvents,
} from '../../src/engine/heartbeat.ts'
import type { Log } from '../../src/engine/log.ts'
import { sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { startRequestProxy } from '../support/request-proxy.ts'
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
    thread: databaseBeats(url),
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
