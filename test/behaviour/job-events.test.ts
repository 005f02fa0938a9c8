import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import pino from 'pino'
import { afterEach, expect, test } from 'vitest'
import type { Queryable } from '../../src/db/database.ts'
import { JobEvents } from '../../src/engine/streams/job-events.ts'
import type { EventSink, StreamedEvent } from '../../src/engine/streams/job-feed.ts'
import { type Sluice, task } from '../../src/index.ts'
import { START } from '../../src/model/stream-position.ts'
import { OpenStreams, type StreamLimits } from '../../src/server/stream/open-streams.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { EventReader } from '../support/event-reader.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)
const log = pino({ level: 'silent' })
let rest: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const end of rest.reverse()) await end()
  rest = []
})

/** Counts what the watcher asks. */
function counted(db: Queryable): Queryable & { statements: string[] } {
  const statements: string[] = []
  return {
    statements,
    run: (statement, values) => {
      statements.push(statement.name)
      return db.run(statement, values)
    },
  }
}

/** Streams over HTTP without the rest of a server: `/jobs/7` streams job 7. */
async function serve(app: Sluice, limits: StreamLimits) {
  const db = counted(app.services.db)
  const events = new JobEvents(db, app.services.listener, 'test', log)
  const streams = new OpenStreams(events, log, limits)
  const right = { name: 'all', keyId: '1', refused: async () => undefined }
  const server: Server = createServer((request, response) => {
    const id = request.url!.split('/').at(-1)!
    const options = { tree: false, logs: true, position: START }
    streams.open(response, right, (sink) => events.open(id, options, sink))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  rest.push(async () => {
    await streams.close()
    server.closeAllConnections()
    server.close()
  })
  return { db, events, streams, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

const LIMITS: StreamLimits = { perKey: 100, heartbeatMs: 200, slowMs: 500, tickMs: 50 }

function read(url: string, id: string): EventReader {
  const reader = new EventReader(url, `/${id}`, 'none')
  rest.push(() => reader.close())
  return reader
}

test('200 streams are served by the same few statements as one, and leave nothing behind when they are cut off', async () => {
  const idle = task({ name: 'idle', run: async (_: unknown) => null })
  const app = await apps.open({ tasks: [idle] })
  const jobs = await app.submitMany(idle, Array.from({ length: 200 }), { runAt: '1h' })
  const { db, events, streams, url } = await serve(app, LIMITS)

  const readers = jobs.map(({ id }) => read(url, id))
  for (const reader of readers) await reader.until('its state', (r) => r.events.length > 0)
  expect([streams.size, events.size]).toEqual([200, 200])

  db.statements.length = 0
  await app.cancel(jobs[0]!.id)
  await readers[0]!.ended()
  const looks = db.statements.filter((name) => name === 'watch_jobs').length
  expect(db.statements.length).toBeLessThanOrEqual(4 * (looks + 1))

  for (const reader of readers) reader.close()
  await until(() => streams.size === 0 && events.size === 0, 'streams to be forgotten')
  db.statements.length = 0
  await app.cancel(jobs[1]!.id)
  await app.cancel(jobs[2]!.id)
  expect(db.statements.length).toBeLessThanOrEqual(3) // a look that was under way
})

test('a quiet stream gets heartbeats', async () => {
  const idle = task({ name: 'quiet', run: async (_: unknown) => null })
  const app = await apps.open({ tasks: [idle] })
  const job = await app.submit(idle, 1, { runAt: '1h' })
  const { url } = await serve(app, LIMITS)
  await read(url, job.id).until('heartbeats', (r) => r.comments >= 3 && r.events.length === 1)
})

test('a reader that takes nothing is cut off; the others of the same job miss nothing', async () => {
  const lines = 6000
  const loud = task({
    name: 'loud',
    run: async (_: unknown, ctx) => {
      for (let n = 0; n < lines; n++) ctx.log.info(`${n} ${'x'.repeat(600)}`)
    },
  })
  const app = await apps.open({ tasks: [loud] })
  const job = await app.submit(loud, 1)
  const { streams, url } = await serve(app, LIMITS)
  const slow = await read(url, job.id).opened()
  slow.pause()
  const good = read(url, job.id)
  await app.work()
  await good.ended()
  expect(good.lines().map((line) => Number(line.split(' ')[0]))).toEqual(
    Array.from({ length: lines }, (_, n) => n),
  )
  await until(() => streams.size === 0, 'the slow reader to be cut off')
  slow.resume()
  await slow.ended()
  expect(slow.lines().length).toBeLessThan(lines)
})

test('a reader that was busy hears of the state of then, not of every state on the way', async () => {
  const gate = new Gate()
  const steps = task({
    name: 'steps',
    run: async (_: unknown, ctx) => {
      for (let n = 1; n <= 5; n++) ctx.progress(n / 10, `step ${n}`)
      await gate.pass()
    },
  })
  const app = await apps.open({ tasks: [steps] })
  const db = counted(app.services.db)
  const looks = () => db.statements.filter((name) => name === 'watch_jobs').length
  const events = new JobEvents(db, app.services.listener, 'test', log)
  rest.push(() => events.close())
  const told: StreamedEvent[] = []
  const sink: EventSink & { ready: boolean } = {
    ready: false,
    send: (event) => told.push(event),
    end: () => {},
  }
  const job = await app.submit(steps, 1)
  events.open(job.id, { tree: false, logs: true, position: START }, sink)
  await app.work()
  await gate.arrived()
  await until(async () => (await app.getJob(job.id)).progress === 0.5, 'its progress to be stored')
  // What one look has seen is told with the next.
  const stored = looks()
  await until(() => looks() >= stored + 3, 'two more looks')
  expect(told).toEqual([])
  sink.ready = true
  events.nudge()
  await until(() => told.some(({ event }) => event === 'progress'), 'the progress')
  expect(told.map(({ event, data }) => [event, JSON.parse(data).status ?? JSON.parse(data).message])).toEqual(
    [
      ['state', 'running'],
      ['progress', 'step 5'],
    ],
  )
  gate.open()
  await until(() => told.at(-1)?.event === 'end', 'the end')
})
