import { readFile } from 'node:fs/promises'
import { beforeAll, describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { createDatabase, useDatabase } from '../support/database.ts'
import { startTestServer, useServer } from '../support/http-server.ts'
import { startProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const echo = task({ name: 'echo', run: async (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, { tasks: [echo] })
let key = ''

beforeAll(async () => {
  key = await server.keyOf('operator')
})

describe('/readyz', () => {
  test('says yes to a server with its database, and needs no key', async () => {
    const answer = await server.at('GET', '/readyz')
    expect([answer.status, answer.json()]).toEqual([
      200,
      { status: 'ready', checks: { database: 'ok', schema: 'ok', draining: false }, findings: [] },
    ])
    expect((await server.at('HEAD', '/readyz')).status).toBe(200)
    expect((await server.at('GET', '/healthz')).json()).toMatchObject({ status: 'ok' })
  })

  test('says no while the schema is older than the program, or newer and no longer supports it', async () => {
    const applied = await database.sql<{ version: number }>(
      'select * from sluice.migrations order by version',
    )
    const { version } = applied.at(-1)!
    const untilSchema = (status: number, schema: string) =>
      until(async () => {
        const seen = await server.at('GET', '/readyz')
        return seen.status === status && seen.json<{ checks: { schema: string } }>().checks.schema === schema
      }, `the server to say of the schema: ${schema}`)
    try {
      await database.sql(
        `insert into sluice.migrations (version, name, compatible_since) values ($1, 'later', $1)`,
        [version + 1],
      )
      await untilSchema(
        503,
        `at version ${version + 1}, which supports programs from version ${version + 1} on; this program has version ${version}`,
      )
      await database.sql('update sluice.migrations set compatible_since = $1 where version > $1', [version])
      await untilSchema(200, 'ok')
      await database.sql('delete from sluice.migrations where version >= $1', [version])
      await untilSchema(503, `at version ${version - 1}, but this program needs ${version}`)
    } finally {
      await database.sql('delete from sluice.migrations where true')
      await database.sql(
        'insert into sluice.migrations select * from jsonb_populate_recordset(null::sluice.migrations, $1)',
        [JSON.stringify(applied)],
      )
    }
  })
})

test('a server whose database is away says so with 503 and Retry-After, is alive, and comes back by itself', async () => {
  const own = await createDatabase({ direct: true })
  const proxy = await startProxy(own.url)
  const lone = await startTestServer(proxy.url)
  let mend = () => {}
  try {
    const admin = await lone.keyOf('platform_admin')
    mend = proxy.onConnect((connection) => connection.cut())
    for (const connection of proxy.connections()) connection.cut()
    const answer = await lone.call('GET', '/admin/workers/lanes', { key: admin })
    expect([answer.status, answer.json().code]).toEqual([503, 'DATABASE_UNAVAILABLE'])
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect(answer.text).not.toContain('127.0.0.1')
    expect((await lone.at('GET', '/readyz')).json()).toMatchObject({ checks: { database: 'not reachable' } })
    expect((await lone.at('GET', '/healthz')).status).toBe(200)
    expect((await lone.at('GET', '/metrics')).text).toContain('sluice_database_reachable 0')
    mend()
    await until(async () => (await lone.at('GET', '/readyz')).status === 200, 'the server to be ready again')
  } finally {
    mend()
    await lone.stop()
    await proxy.close()
    await own.drop()
  }
})

describe('/metrics', () => {
  test('tells of lanes, admission, duties, submissions and claims', async () => {
    await server.at('GET', '/metrics')
    await server.call('PATCH', '/admin/workers/lanes/default', { key, body: { slots: 3 } })
    await server.app.work({ capacity: 1 })
    const { id } = (await server.call('POST', '/jobs', { key, body: { task: 'echo' } })).json<{
      id: string
    }>()
    await server.app.job(id).result()
    await server.app.stopWorking()
    const text = await until(async () => {
      const { text } = await server.at('GET', '/metrics')
      const isSampled =
        /sluice_claim_latency_seconds_count\{lane="default"\} 1/.test(text) &&
        /^sluice_lane_depth\{lane="default"\} 0$/m.test(text)
      return isSampled ? text : undefined
    }, 'the claim and the empty queue to be seen')
    expect(text).toMatch(/^sluice_lane_slots\{lane="default"\} 3$/m)
    expect(text).toMatch(/^sluice_lane_running\{lane="interactive"\} 0$/m)
    expect(text).toMatch(/^sluice_submit_duration_seconds_count 1$/m)
    expect(text).toMatch(/^sluice_duty_age_seconds\{duty="reconcile"\} [\d.]+$/m)
    expect(text).toMatch(
      /^sluice_http_request_duration_seconds_count\{method="POST",route="\/api\/v1\/jobs",status="202"\} 1$/m,
    )
    expect(text).toContain('sluice_database_reachable 1')
    expect(text).toContain('process_open_fds')
  })

  test('unknown addresses are one series, however many are made up', async () => {
    for (const made of ['/a', '/b', '/c%2e']) await server.at('GET', made)
    const { text } = await until(async () => {
      const answer = await server.at('GET', '/metrics')
      return /route="unknown",status="404"\} [3-9]/.test(answer.text) ? answer : undefined
    }, 'the misses to be counted')
    expect(text).not.toContain('/c%2e')
  })

  test('are closed to those who come through a proxy without a key', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.7' }
    expect((await server.at('GET', '/metrics', { headers })).status).toBe(401)
    expect((await server.at('GET', '/metrics', { headers, key })).status).toBe(200)
    const worker = await server.keyOf('worker')
    expect((await server.at('GET', '/metrics', { headers, key: worker })).status).toBe(403)
  })
})

describe('the description', () => {
  interface OpenApi {
    openapi: string
    tags: { name: string }[]
    paths: Record<string, Record<string, Operation>>
  }
  interface Operation {
    readonly operationId: string
    readonly tags: readonly string[]
    readonly responses: Readonly<Record<string, { readonly headers?: object }>>
    readonly security: readonly unknown[]
  }

  test('names every route there is, with its permission and its refusals', async () => {
    const description = (await server.at('GET', '/openapi.json')).json<OpenApi>()
    expect(description.openapi).toBe('3.1.0')
    for (const { method, url, config, schema } of server.http.routeTable) {
      // Pages for people are no operations.
      if (url.startsWith('/docs') || method === 'HEAD' || (schema as { hide?: boolean })?.hide === true)
        continue
      const path = url.replaceAll(/:(\w+)/g, '{$1}')
      const operation = description.paths[path]?.[String(method).toLowerCase()]
      expect(operation, `${String(method)} ${path}`).toBeDefined()
      expect(operation!.responses).toHaveProperty('default')
      const isOpen = config!.access === 'public' || config!.access === 'sign-in'
      expect(operation!.security).toHaveLength(isOpen ? 0 : 1)
    }
  })

  test('gives every operation a name of its own, a tag that is declared and an answer for success', async () => {
    const { tags, paths } = (await server.at('GET', '/openapi.json')).json<OpenApi>()
    const declared = tags.map(({ name }) => name)
    const operations = Object.values(paths).flatMap((methods) => Object.values(methods))
    for (const { operationId, tags: own, responses, security } of operations) {
      expect(operationId).toMatch(/^[a-z]+([A-Z][a-z]*)+$/)
      expect(declared, operationId).toEqual(expect.arrayContaining([...own]))
      expect(Object.keys(responses).join(' '), operationId).toMatch(/\b2\d\d\b/)
      if (security.length > 0) expect(responses[429]?.headers, operationId).toHaveProperty('Retry-After')
    }
    const names = operations.map(({ operationId }) => operationId)
    expect(new Set(names).size).toBe(names.length)
    expect(names).toEqual(expect.arrayContaining(['getJob', 'postJobs', 'getJobLogs', 'deleteSchedule']))
  })

  test('agrees with the reference for people, which lists every route', async () => {
    const page = await readFile(new URL('../../docs/reference/http.md', import.meta.url), 'utf8')
    const listed = new Set([...page.matchAll(/^\| `([A-Z]+ \/[^`]*)` \|/gm)].map((match) => match[1]!))
    const { paths } = (await server.at('GET', '/openapi.json')).json<OpenApi>()
    const served = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    )
    expect([...listed].sort()).toEqual([...served, 'GET /', 'GET /docs'].sort())
  })

  test('is read on a page that loads nothing from elsewhere', async () => {
    const page = await server.at('GET', '/docs')
    expect(page.status).toBe(200)
    expect(page.headers['content-security-policy']).toContain("default-src 'none'")
    const files = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1]!)
    expect(files.length).toBeGreaterThan(3)
    for (const file of files) {
      expect(file, 'of this server').toMatch(/^\/docs\/static\//)
      expect((await server.at('GET', file)).status, file).toBe(200)
    }
  })
})
