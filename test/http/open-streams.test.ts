import { once } from 'node:events'
import { createServer, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import pino from 'pino'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { JobEvents } from '../../src/engine/streams/job-events.ts'
import { type Sluice, sluice, task } from '../../src/index.ts'
import { START } from '../../src/model/stream-position.ts'
import { onDisconnect } from '../../src/server/http/on-disconnect.ts'
import { OpenStreams } from '../../src/server/stream/open-streams.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const log = pino({ level: 'silent' })
const echo = task({ name: 'echo', run: async (input: unknown) => input })
const right = { name: 'all', keyId: '1', refused: async () => undefined }
const options = { tree: false, logs: true, position: START }
let app: Sluice
let http: Server
let events: JobEvents
let streams: OpenStreams

beforeAll(async () => {
  app = await sluice({ database: database.url, tasks: [echo] })
  http = createServer().listen(0, '127.0.0.1')
  await once(http, 'listening')
})
afterAll(async () => {
  http.close()
  await app.close()
})
beforeEach(() => {
  events = new JobEvents(app.services.db, app.services.listener, 'test', log)
  streams = new OpenStreams(events, log)
})

/** A request that has arrived, before anything is answered. */
async function arrived() {
  const { port } = http.address() as AddressInfo
  const sent = request({ host: '127.0.0.1', port })
  sent.on('error', () => {})
  sent.end()
  const [, response] = (await once(http, 'request')) as [unknown, ServerResponse]
  return { sent, response }
}

test('for a reader that went away before its stream was opened nothing is kept', async () => {
  const { id } = await app.submit(echo, 1, { runAt: '1h' })
  const { sent, response } = await arrived()
  const closed = once(response, 'close')
  sent.destroy()
  await closed
  streams.open(response, right, (sink) => events.open(id, options, sink))
  expect([streams.size, events.size]).toEqual([0, 0])
  await streams.close()
})

test('reports the end of a client once, even if it had already gone', async () => {
  const { sent, response } = await arrived()
  const told: string[] = []
  onDisconnect(response, () => told.push('later'))
  const closed = once(response, 'close')
  sent.destroy()
  await closed
  onDisconnect(response, () => told.push('at once'))
  expect(told).toEqual(['later', 'at once'])
})

test('a stream that is asked for while the server stops ends at once', async () => {
  const { id } = await app.submit(echo, 1, { runAt: '1h' })
  await streams.close()
  const { sent, response } = await arrived()
  const answered = once(sent, 'response')
  streams.open(response, right, (sink) => events.open(id, options, sink))
  const [answer] = await answered
  answer.resume()
  await once(answer, 'end')
  expect([answer.statusCode, streams.size]).toEqual([200, 0])
})
