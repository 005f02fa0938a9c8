import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { type Answer, type Request, useServer } from '../support/http-server.ts'

const database = useDatabase()
const server = useServer(database)

interface Route {
  readonly name: string
  readonly method: string
  readonly path: string
}
const guarded: Route[] = []
let key = ''

beforeAll(async () => {
  key = await server.keyOf('platform_admin')
  for (const { method, url, config } of server.http.routeTable) {
    const { access } = config!
    if (access === 'public' || access === 'sign-in' || access === 'metrics') continue
    const path = url.replaceAll(':id', '1').replaceAll(/:(?!id)\w+/g, 'default')
    for (const each of [method].flat()) guarded.push({ name: `${each} ${url}`, method: each, path })
  }
  expect(guarded.length).toBeGreaterThan(15)
})

/** Refused by the router, by its schema, or for lack of a key; never carried out, and never a fault of the server. */
function expectRefused(answer: Answer, what: string): void {
  expect(answer.status, `${what} -> ${answer.status} ${answer.text.slice(0, 200)}`).toBeGreaterThanOrEqual(
    400,
  )
  expect(answer.status, `${what} -> ${answer.status} ${answer.text.slice(0, 200)}`).toBeLessThan(500)
}

const OPEN = ['/healthz', '/readyz', '/openapi.json', '/docs', '/docs/static/index.html', '/metrics']

function disguises(path: string): string[] {
  const [, first = '', ...rest] = path.split('/')
  return [
    ...OPEN.flatMap((open) => [
      `${path}${open}`,
      `${path}/..${open}`,
      `${path}/%2e%2e${open}`,
      `${path};${open}`,
      `${path};a=b${open}`,
      `${path}?${open}`,
      `${path}?path=${open}`,
      `${path}%3f${open}`,
      `${path}%23${open}`,
      `${path}%00${open}`,
      `${path}%2f${open.slice(1)}`,
      `${open}/..${path}`,
      `${open}/%2e%2e${path}`,
      `${open}%2f..${path}`,
      `${open}/../..${path}`,
      `${open};${path}`,
      `${open}${path}`,
      `${open}//${path}`,
    ]),
    ...[
      '.',
      '..',
      '%2e',
      '/',
      '//',
      '/.',
      '/..',
      '%20',
      '%09',
      '%0a',
      '%2f',
      '%5c',
      '\\',
      ';',
      '.json',
      '.html',
      '.css',
      '.js',
      '~',
      '#',
      '%',
      '%zz',
      '%c0%af',
      '%ff',
    ].map((end) => path + end),
    `/${path}`,
    `//${path}`,
    `/.${path}`,
    `/%2f${path}`,
    `/;${path}`,
    path.toUpperCase(),
    `/${first.toUpperCase()}/${rest.join('/')}`,
    path.replace('/api/', '/API/'),
    path.replace('/v1/', '/V1/'),
    path.replace('/api/v1', '/api//v1'),
    path.replace('/api/v1', '/api/./v1'),
    path.replace('/api/v1', '/api/v1/.'),
    path.replace('/api/v1', '/api/v2/../v1'),
    path.replace('/api/v1', '/%61pi/v1'),
    path.replace('/api/v1', '/api%2fv1'),
    path.replace('/api/v1', ''),
    path.replaceAll('/', '\\'),
    `http://localhost${path}`,
    `http://localhost/healthz@${path}`,
  ]
}

test('no disguise of an address opens it', { timeout: 120_000 }, async () => {
  let tried = 0
  for (const { method, path, name } of guarded) {
    const attempts = disguises(path).filter((each) => !/[\s]/.test(each))
    const answers = await Promise.all(attempts.map((each) => server.at(method, each)))
    attempts.forEach((each, index) => {
      tried++
      expectRefused(answers[index]!, `${name} as ${method} ${each}`)
    })
  }
  expect(tried).toBeGreaterThan(2000)
})

test('no method opens an address', async () => {
  const methods = [
    'GET',
    'HEAD',
    'POST',
    'PUT',
    'PATCH',
    'DELETE',
    'OPTIONS',
    'TRACE',
    'PROPFIND',
    'QUERY',
    'SEARCH',
  ]
  for (const { path, name, method: own } of guarded) {
    for (const method of methods) expectRefused(await server.at(method, path), `${name} with ${method}`)
    for (const header of ['x-http-method-override', 'x-http-method', 'x-method-override'])
      expectRefused(
        await server.at('GET', '/no-such-thing', { headers: { [header]: own } }),
        `${name} by ${header}`,
      )
  }
})

describe('no header opens an address:', () => {
  const headers: [string, Readonly<Record<string, string>>][] = [
    ['the address of this machine', { 'x-forwarded-for': '127.0.0.1', 'x-real-ip': '127.0.0.1' }],
    ['a proxy', { forwarded: 'for=127.0.0.1;host=localhost;proto=https' }],
    ['another address', { 'x-original-url': '/healthz', 'x-rewrite-url': '/healthz' }],
    ['another host', { 'x-forwarded-host': 'localhost', 'x-forwarded-prefix': '/docs' }],
    ['another user', { 'x-remote-user': 'admin', 'x-forwarded-user': 'admin', 'x-sluice-key': 'admin' }],
    ['no credentials', { authorization: '' }],
    ['a scheme alone', { authorization: 'Bearer' }],
    ['an empty key', { authorization: 'Bearer ' }],
    ['the word null', { authorization: 'Bearer null' }],
    ['the prefix of a key', { authorization: 'Bearer slk_' }],
    ['a pattern', { authorization: `Bearer slk_${'%'.repeat(43)}` }],
    ['a user name', { authorization: `Basic ${Buffer.from('admin:admin').toString('base64')}` }],
    ['a preflight', { origin: 'https://evil.example', 'access-control-request-method': 'POST' }],
    [
      'an upgrade',
      { connection: 'upgrade', upgrade: 'websocket', 'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==' },
    ],
  ]
  test.each(headers)('%s', async (_, headers) => {
    for (const { method, path, name } of guarded)
      expectRefused(await server.at(method, path, { headers }), `${name} with ${JSON.stringify(headers)}`)
  })
})

test('no kind of body opens an address, and none is read before the key is known', async () => {
  const kinds: Request[] = [
    { raw: '{}', headers: { 'content-type': 'application/json' } },
    { raw: 'a=b', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    { raw: '--x\r\n\r\n--x--', headers: { 'content-type': 'multipart/form-data; boundary=x' } },
    { raw: '{}', headers: { 'content-type': 'text/plain' } },
    { raw: '{}', headers: { 'content-type': 'application/json; charset=utf-7' } },
    { raw: '{}', headers: { 'content-type': 'application/json/healthz' } },
    { raw: gzipSync('{}'), headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' } },
    { raw: `{"authorization":"Bearer ${key}","key":"${key}"}` },
    { raw: 'not json at all' },
    { raw: Buffer.from([0xff, 0xfe, 0x00]) },
  ]
  for (const { method, path, name } of guarded) {
    for (const kind of kinds) {
      const answer = await server.at(method, path, kind)
      expect(answer.status, `${name} with ${JSON.stringify(kind.headers)}: ${answer.text}`).toBe(401)
    }
  }
})

test('a key counts in its header only, not in an address, a cookie or another scheme', async () => {
  for (const { method, path, name } of guarded) {
    const places: [string, Request][] = [
      [`${path}?key=${key}&access_token=${key}&authorization=Bearer%20${key}`, {}],
      [
        path,
        { headers: { cookie: `sluice_session=${key}; __Host-sluice_session=${key}; authorization=${key}` } },
      ],
      [path, { headers: { 'x-api-key': key, 'api-key': key, 'sluice-key': key } }],
      [path, { headers: { authorization: key } }],
      [path, { headers: { authorization: `Basic ${Buffer.from(`:${key}`).toString('base64')}` } }],
      [path, { headers: { authorization: `Bearer ${key}, Bearer ${key}` } }],
      [path, { headers: { authorization: `Bearer ${key}.` } }],
      [path, { headers: { authorization: `Bearer ${key.toLowerCase()}` } }],
    ]
    for (const [address, request] of places)
      expectRefused(await server.at(method, address, request), `${name} with ${JSON.stringify(request)}`)
  }
})

test('what is open is open by its exact address', async () => {
  for (const path of ['/healthz', '/readyz', '/openapi.json'])
    expect((await server.at('GET', path)).status, path).toBe(200)
  for (const path of [
    '/healthz/',
    '/HEALTHZ',
    '//healthz',
    '/healthz.',
    '/api/v1/healthz',
    '/api/v1/openapi.json',
  ])
    expect((await server.at('GET', path)).status, path).toBe(404)
})

test('the metrics are open to programs on this machine, to nobody who came by way of something else, and to the right keys', async () => {
  expect((await server.at('GET', '/metrics')).status).toBe(200)
  const port = new URL(server.url).port
  expect((await server.at('GET', '/metrics', { headers: { host: `localhost:${port}` } })).status).toBe(200)
  const others: Readonly<Record<string, string>>[] = [
    { 'x-forwarded-for': '127.0.0.1' },
    { forwarded: 'for=127.0.0.1' },
    // A page of another site whose name was made to lead here.
    { host: 'evil.example' },
    { host: `localhost.evil.example:${port}` },
  ]
  for (const headers of others) {
    expect((await server.at('GET', '/metrics', { headers })).status, JSON.stringify(headers)).toBe(401)
    expect((await server.at('GET', '/metrics', { headers, key })).status).toBe(200)
  }
})

test('nothing was changed by any of it', async () => {
  const [row] = await database.sql<{ keys: number; roles: number; jobs: number; changed: number }>(
    `select (select count(*)::integer from sluice.api_keys) as keys, (select count(*)::integer from sluice.roles) as roles,
            (select count(*)::integer from sluice.jobs) as jobs,
            (select count(*)::integer from sluice.audit where refused is null and action <> 'key.create') as changed`,
  )
  expect(row).toEqual({ keys: 1, roles: 6, jobs: 0, changed: 0 })
})
