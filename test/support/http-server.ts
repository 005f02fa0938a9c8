import { Agent, type IncomingHttpHeaders, request as send } from 'node:http'
import { Writable } from 'node:stream'
import pino from 'pino'
import { afterAll, beforeAll } from 'vitest'
import { transactWithRetries } from '../../src/db/with-retries.ts'
import { authorOfDatabase } from '../../src/engine/access/author.ts'
import { createKey } from '../../src/engine/access/keys.ts'
import { type Sluice, type SluiceOptions, sluice } from '../../src/index.ts'
import type { Server } from '../../src/server/parts.ts'
import type { ServerLimits } from '../../src/server/server.ts'
import { startServer } from '../../src/server/start-server.ts'
import type { TestDatabase } from './database.ts'

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The body as JSON. */
  json<T = Record<string, unknown>>(): T
}

export interface Request {
  readonly key?: string | undefined
  /** Sent as JSON. */
  readonly body?: unknown
  /** Sent as it is, in place of `body`. */
  readonly raw?: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
  /** Hang up once the status is there: for streams. */
  readonly hangUp?: boolean
}

export interface TestServer {
  readonly url: string
  readonly app: Sluice
  readonly http: Server
  /** Everything that was logged so far. */
  log(): string
  /** Sends a request exactly as it is written: no client tidies up the path. `/keys` is under `/api/v1`. */
  call(method: string, path: string, request?: Request): Promise<Answer>
  /** The same for an address from the root. */
  at(method: string, path: string, request?: Request): Promise<Answer>
  /** A new key with a role, for a name of its own unless one is given. */
  keyOf(role: string, name?: string): Promise<string>
  stop(): Promise<void>
}

/** What the workers of a key may run that is not about what they may run. */
export const EVERYTHING = {
  tasks: ['*'],
  lanes: ['*'],
  pools: ['*'],
  maxCapacity: null,
  minRank: -1_000_000,
}

/** An HTTP server on a test database, in this process. Stop it yourself. */
export async function startTestServer(
  databaseUrl: string,
  options: SluiceOptions = {},
  limits: Partial<ServerLimits> = {},
): Promise<TestServer> {
  const lines: string[] = []
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString())
      done()
    },
  })
  const log = pino({ level: 'trace' }, sink)
  const app = await sluice({ database: databaseUrl, log, ...options })
  const running = await startServer({ app, log, host: '127.0.0.1', port: 0, graceMs: 2000, limits })
  const at = (method: string, path: string, request: Request = {}) =>
    exchange(running.url, method, path, request)
  let keys = 0
  return {
    url: running.url,
    app,
    http: running.http,
    log: () => lines.join(''),
    at,
    call: (method, path, request) => at(method, `/api/v1${path}`, request),
    async keyOf(role, name = `${role}-${++keys}`) {
      const { db } = app.services
      const author = authorOfDatabase('test')
      const runs = role === 'worker' || role === 'platform_admin' ? EVERYTHING : undefined
      return (await transactWithRetries(db, (tx) => createKey(tx, { name, role, runs }, author))).key
    },
    async stop() {
      await running.stop()
      await app.close()
    },
  }
}

/** A server for all tests of a file. */
export function useServer(database: TestDatabase, options: SluiceOptions = {}): TestServer {
  let server: TestServer | undefined
  beforeAll(async () => {
    server = await startTestServer(database.url, options)
  })
  afterAll(() => server?.stop())
  return new Proxy({} as TestServer, {
    get: (_, name) => {
      if (server === undefined) throw new Error('the server runs only while tests do')
      return server[name as keyof TestServer]
    },
  })
}

/** Some files send ten thousand requests: with a connection for each they would take three times as long. */
const agent = new Agent({ keepAlive: true, maxSockets: 32 })

function exchange(url: string, method: string, path: string, request: Request): Promise<Answer> {
  const { hostname, port } = new URL(url)
  const body = request.raw ?? (request.body === undefined ? undefined : JSON.stringify(request.body))
  const headers = {
    ...(request.key !== undefined && { authorization: `Bearer ${request.key}` }),
    ...(body !== undefined && {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
    }),
    ...request.headers,
  }
  return new Promise((resolve, reject) => {
    const sent = send({ hostname, port, method, path, headers, agent }, (response) => {
      const chunks: Buffer[] = []
      const finish = () => {
        const text = Buffer.concat(chunks).toString('utf8')
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          json: () => JSON.parse(text),
        })
      }
      const good = (response.statusCode ?? 0) < 400
      if (request.hangUp === true && good) {
        finish()
        sent.destroy()
        return
      }
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', finish)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}
