import { readdirSync } from 'node:fs'
import { Agent, request as send } from 'node:http'
import { connect, type Socket } from 'node:net'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { transactWithRetries } from '../../src/db/with-retries.ts'
import { authorOfDatabase } from '../../src/engine/access/author.ts'
import { createKey } from '../../src/engine/access/keys.ts'
import { type Sluice, sluice, task } from '../../src/index.ts'
import { type RunningServer, startServer } from '../../src/server/start-server.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

const echo = task({ name: 'echo', run: async (input: unknown) => input })
const database = useDatabase()
let app: Sluice
let server: RunningServer
let key = ''
let port = 0

beforeAll(async () => {
  app = await sluice({ database: database.url, tasks: [echo] })
  server = await startServer({
    app,
    log: pino({ level: 'silent' }),
    host: '127.0.0.1',
    port: 0,
    graceMs: 2000,
    limits: { headersMs: 300, requestMs: 600, idleMs: 1500, bodyBytes: 10_000, checkEveryMs: 100 },
  })
  port = Number(new URL(server.url).port)
  const wanted = { name: 'ann', role: 'operator' }
  key = (await transactWithRetries(app.services.db, (tx) => createKey(tx, wanted, authorOfDatabase('test'))))
    .key
})
afterAll(async () => {
  await server.stop()
  await app.close()
})

/** What the other side says until it hangs up. */
function talk(lines: string, more?: (socket: Socket) => void): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.write(lines)
      more?.(socket)
    })
    let text = ''
    socket.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    socket.on('close', () => resolve(text))
    socket.on('error', reject)
  })
}

describe('slow clients', () => {
  test('get an error and are closed when they do not finish their headers', async () => {
    expect(await talk('GET /healthz HTTP/1.1\r\nHost: x\r\n')).toMatch(/^HTTP\/1\.1 408 /)
  })

  test('get an error and are closed when they do not finish their body', async () => {
    const head = `POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`
    expect(await talk(head)).toMatch(/^HTTP\/1\.1 408 /)
  })

  test('that say nothing at all are hung up on', async () => {
    expect(await talk('')).toMatch(/^(HTTP\/1\.1 408 |$)/)
  })

  test('with headers beyond all measure are refused', async () => {
    const answer = await talk(`GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ${'a'.repeat(20_000)}\r\n\r\n`)
    expect(answer).toMatch(/^HTTP\/1\.1 431 /)
    expect(answer).toContain('address and headers together are larger than 16 KiB')
  })

  test('with a body larger than they said are refused, and nothing is stored', async () => {
    const body = JSON.stringify({ task: 'echo', input: 'x'.repeat(20_000) })
    const head = `POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
    expect(await talk(head)).toMatch(/^HTTP\/1\.1 413 /)
  })
})

/** Requests that their clients give up at some point of their life. */
function abort(agent: Agent, n: number): Promise<void> {
  const stages = ['before anything', 'in the headers', 'in the body', 'waiting', 'in the answer'] as const
  const stage = stages[n % stages.length]!
  const body = JSON.stringify({ task: 'echo', input: n, tags: ['aborted'] })
  const isRead = stage === 'in the answer'
  return new Promise((resolve) => {
    const sent = send({
      port,
      host: '127.0.0.1',
      agent,
      method: isRead ? 'GET' : 'POST',
      path: isRead ? '/api/v1/admin/workers/status' : '/api/v1/jobs',
      headers: {
        authorization: `Bearer ${key}`,
        ...(!isRead && { 'content-type': 'application/json', 'content-length': String(body.length) }),
      },
    })
    sent.on('error', () => {})
    sent.on('close', () => resolve())
    sent.on('response', (response) => {
      response.on('error', () => {})
      response.resume()
      sent.destroy()
    })
    if (stage === 'before anything') sent.destroy()
    else if (stage === 'in the headers') {
      sent.flushHeaders()
      sent.destroy()
    } else if (stage === 'in the body') {
      sent.write(body.slice(0, 5), () => sent.destroy())
    } else if (stage === 'waiting') sent.end(body, () => sent.destroy())
    else sent.end()
  })
}

function openFiles(): number {
  return readdirSync('/proc/self/fd').length
}

// More by a flag, as in SLUICE_ABORTED=10000.
const ABORTED = Number(process.env.SLUICE_ABORTED ?? 1500)

test(`${ABORTED} aborted requests leave pool and file descriptors as they were`, {
  timeout: 120_000 + 20 * ABORTED,
}, async () => {
  const agent = new Agent({ keepAlive: false, maxSockets: 50 })
  const idle = async () => {
    agent.destroy()
    return until(async () => {
      const connections = await new Promise<number>((resolve) =>
        server.http.server.getConnections((_, count) => resolve(count)),
      )
      return connections === 0 ? openFiles() : undefined
    }, 'every connection to be closed')
  }
  // What is opened once stays open: connections to the database, the first request's modules.
  for (let n = 0; n < 100; n += 50)
    await Promise.all(Array.from({ length: 50 }, (_, at) => abort(agent, n + at)))
  const before = { files: await idle(), connections: app.services.db.connections }
  for (let n = 0; n < ABORTED; n += 50)
    await Promise.all(Array.from({ length: 50 }, (_, at) => abort(agent, n + at)))
  expect(await idle()).toBeLessThanOrEqual(before.files + 4)
  expect(app.services.db.connections).toBeLessThanOrEqual(4)
  // Nobody holds a connection: all four can be had at once.
  await Promise.all(Array.from({ length: 8 }, () => app.listLanes()))
  const [row] = await database.sql<{ open: number }>(
    `select count(*)::integer as open from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`,
  )
  expect(row!.open).toBe(0)
  const answer = await fetch(`${server.url}/api/v1/admin/workers/lanes`, {
    headers: { authorization: `Bearer ${key}` },
  })
  expect(answer.status).toBe(200)
})
