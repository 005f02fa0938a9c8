import { Agent, request as send } from 'node:http'
import pg from 'pg'
import pino from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { transactWithRetries } from '../../src/db/with-retries.ts'
import { authorOfDatabase } from '../../src/engine/access/author.ts'
import { createKey } from '../../src/engine/access/keys.ts'
import { type Sluice, sluice, task } from '../../src/index.ts'
import { type RunningServer, startServer } from '../../src/server/start-server.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const echo = task({ name: 'echo', run: async (input: unknown) => input })
let app: Sluice
let blocker: pg.Client
let key = ''
const agent = new Agent({ keepAlive: true })

beforeEach(async () => {
  app = await sluice({ database: database.url, tasks: [echo] })
  const wanted = { name: 'olga', role: 'operator' }
  key = (await transactWithRetries(app.services.db, (tx) => createKey(tx, wanted, authorOfDatabase('test'))))
    .key
  blocker = new pg.Client(database.directUrl)
  await blocker.connect()
})
afterEach(async () => {
  await blocker.end()
  await app.close()
})

function start(graceMs: number, noticeMs = 0): Promise<RunningServer> {
  return startServer({
    app,
    log: pino({ level: 'silent' }),
    host: '127.0.0.1',
    port: 0,
    graceMs,
    noticeMs,
  })
}

interface Got {
  readonly status: number
  readonly connection: string | undefined
  readonly text: string
}

function ask(url: string, method: string, path: string, body?: object): Promise<Got> {
  const { hostname, port } = new URL(url)
  const headers = { authorization: `Bearer ${key}`, ...(body && { 'content-type': 'application/json' }) }
  return new Promise((resolve, reject) => {
    const sent = send({ hostname, port, method, path, agent, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('end', () =>
        resolve({ status: response.statusCode!, connection: response.headers.connection, text }),
      )
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(body && JSON.stringify(body))
  })
}

test('says that it is not ready, goes on for the notice, finishes what is under way and takes nothing new', async () => {
  const server = await start(20_000, 1500)
  await holdLane()
  const underWay = ask(server.url, 'PATCH', '/api/v1/admin/workers/lanes/system', { slots: 5 })
  await waitsForLock()
  const stopped = server.stop()
  const ready = await ask(server.url, 'GET', '/readyz')
  expect([ready.status, ready.connection]).toEqual([503, 'close'])
  expect(JSON.parse(ready.text)).toMatchObject({ checks: { database: 'ok', draining: true } })
  await until(
    () =>
      fetch(`${server.url}/healthz`, { headers: { connection: 'close' } }).then(
        () => false,
        () => true,
      ),
    'new connections to be refused',
  )
  await blocker.query('commit')
  const answer = await underWay
  expect([answer.status, JSON.parse(answer.text).slots]).toEqual([200, 5])
  await stopped
})

test('ends streams, so that their readers go on elsewhere', async () => {
  const server = await start(20_000)
  const { id } = await app.submit('echo', 1, { runAt: '1h' })
  const answer = await fetch(`${server.url}/api/v1/jobs/${id}/stream`, {
    headers: { authorization: `Bearer ${key}` },
  })
  expect(answer.status).toBe(200)
  const reader = answer.body!.getReader()
  await reader.read()
  await server.stop()
  await until(async () => (await reader.read()).done, 'the stream to end')
})

test('cuts what is not finished when the grace is over', async () => {
  const server = await start(300)
  await holdLane()
  const underWay = ask(server.url, 'PATCH', '/api/v1/admin/workers/lanes/system', { slots: 6 })
  const outcome = underWay.then(
    () => 'answered',
    () => 'cut',
  )
  await waitsForLock()
  await server.stop()
  expect(await outcome).toBe('cut')
  await blocker.query('commit')
})

async function holdLane(): Promise<void> {
  await blocker.query('begin')
  await blocker.query(`select 1 from sluice.lanes where name = 'system' for update`)
}

async function waitsForLock(): Promise<void> {
  await until(async () => {
    const rows = await database.admin(
      `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
    return rows.length > 0
  }, 'the request to wait for the lock')
}
