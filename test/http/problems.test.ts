import { once } from 'node:events'
import { connect } from 'node:net'
import { beforeAll, describe, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { type Request, useServer } from '../support/http-server.ts'

const database = useDatabase()
const server = useServer(database)
let key = ''

beforeAll(async () => {
  key = await server.keyOf('platform_admin')
})

const json = (raw: string | Buffer, type = 'application/json'): Request => ({
  raw,
  headers: { 'content-type': type },
})

describe('every refusal is problem+json with a code', () => {
  test.each<[string, string, string, Request | undefined, number, string]>([
    ['an unknown address', 'GET', '/api/v1/nowhere', undefined, 404, 'ROUTE_NOT_FOUND'],
    ['a wrong method', 'PUT', '/api/v1/jobs', undefined, 405, 'METHOD_NOT_ALLOWED'],
    ['an address that cannot be decoded', 'GET', '/api/v1/jobs/%ff', undefined, 400, 'INVALID_ARGUMENT'],
    ['no key', 'GET', '/api/v1/jobs/1', undefined, 401, 'UNAUTHENTICATED'],
    ['a parameter that is no id', 'GET', '/api/v1/jobs/x', {}, 400, 'INVALID_ARGUMENT'],
    ['an id that is too large', 'GET', '/api/v1/jobs/9999999999999999999', {}, 400, 'INVALID_ARGUMENT'],
    ['a job that is not there', 'GET', '/api/v1/jobs/404', {}, 404, 'JOB_NOT_FOUND'],
    ['an unknown query', 'GET', '/api/v1/jobs/1/logs?tail=5', {}, 400, 'INVALID_ARGUMENT'],
    ['JSON that is none', 'POST', '/api/v1/jobs', json('{"task":'), 400, 'INVALID_ARGUMENT'],
    [
      'no JSON at all',
      'POST',
      '/api/v1/jobs',
      json('task=echo', 'text/plain'),
      415,
      'UNSUPPORTED_MEDIA_TYPE',
    ],
    [
      'another charset',
      'POST',
      '/api/v1/jobs',
      json('{}', 'application/json; charset=latin1'),
      415,
      'UNSUPPORTED_MEDIA_TYPE',
    ],
    [
      'bytes that are no UTF-8',
      'POST',
      '/api/v1/jobs',
      json(Buffer.from([0x22, 0xff, 0x22])),
      400,
      'INVALID_ARGUMENT',
    ],
    ['a prototype', 'POST', '/api/v1/jobs', json('{"__proto__": {"task": "x"}}'), 400, 'INVALID_ARGUMENT'],
    [
      'a constructor',
      'POST',
      '/api/v1/jobs',
      json('{"task":"x","input":{"constructor":{"prototype":{}}}}'),
      400,
      'INVALID_ARGUMENT',
    ],
    [
      'too large a body',
      'POST',
      '/api/v1/jobs',
      json(`"${'x'.repeat(1024 * 1024)}"`),
      413,
      'PAYLOAD_TOO_LARGE',
    ],
    ['no body', 'POST', '/api/v1/jobs', {}, 400, 'INVALID_ARGUMENT'],
  ])('%s', async (_, method, path, request, status, code) => {
    const answer = await server.at(method, path, request === undefined ? {} : { key, ...request })
    expect(answer.status, answer.text).toBe(status)
    expect(answer.headers['content-type']).toBe('application/problem+json')
    const problem = answer.json()
    expect(problem).toMatchObject({
      type: 'about:blank',
      status,
      code,
      requestId: answer.headers['x-request-id'],
    })
    expect(problem.detail).not.toBe('')
  })

  test.each([
    ['{"__proto__": {"task": "x"}}', '__proto__'],
    ['{"task":"echo","input":{"a":[0,{"__proto__":1}]}}', 'input.a.1.__proto__'],
    ['{"task":"echo","input":{"constructor":{"prototype":{}}}}', 'input.constructor.prototype'],
    [`${'['.repeat(100_000)}{"__proto__":1}${']'.repeat(100_000)}`, '…0.0.0.0.0.0.0.0.0.__proto__'],
  ])('a key that reaches for a prototype is named: %.60s', async (body, argument) => {
    const answer = await server.at('POST', '/api/v1/jobs', { key, ...json(body) })
    expect([answer.status, answer.json()]).toEqual([
      400,
      expect.objectContaining({
        code: 'INVALID_ARGUMENT',
        argument,
        detail: `${argument} in the body: a key with this name could change the prototype of objects and is rejected: use another name`,
      }),
    ])
  })

  test('reports where a text is not JSON, without quoting it', async () => {
    const answer = await server.at('POST', '/api/v1/jobs', { key, ...json('{"task": "echo", }') })
    expect(answer.json().detail).toMatch(/^the body cannot be read as JSON: Expected .* at position 17/)
    const secret = await server.at('POST', '/api/v1/jobs', { key, ...json('{"task": hush}') })
    expect(secret.json().detail).toMatch(/^the body cannot be read as JSON: Unexpected token 'h'/)
    expect(secret.text).not.toContain('hush')
  })

  test('reports the limit to a body that is too large', async () => {
    const large = await server.at('POST', '/api/v1/jobs', { key, ...json(`"${'x'.repeat(1024 * 1024)}"`) })
    expect(large.json()).toMatchObject({
      limit: 1024 * 1024,
      detail: 'the body is too large: the maximum is 1048576 bytes (1 MiB); send less, or split the request',
    })
    const session = await server.at('POST', '/api/v1/session', json(`"${'x'.repeat(5000)}"`))
    expect([session.status, session.json().detail]).toEqual([
      413,
      'the body is too large: the maximum is 4096 bytes; send less, or split the request',
    ])
  })

  test('a client that is still sending a body that is too large keeps its connection', async () => {
    const length = 3 * 1024 * 1024
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
    const head = `POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n`
    const answer = () => once(socket, 'data').then(([data]) => String(data))
    socket.write(`${head}Content-Length: ${length}\r\n\r\n`)
    expect(await answer()).toContain('PAYLOAD_TOO_LARGE')
    socket.write('x'.repeat(length))
    socket.write(`${head}Content-Length: 15\r\n\r\n{"task":"echo"}`)
    expect(await answer()).toContain('404 Not Found')
    socket.destroy()
  })

  test('reports the supported type to a body with a missing or different type', async () => {
    for (const type of ['application/x-www-form-urlencoded', 'text/plain']) {
      const answer = await server.at('POST', '/api/v1/jobs', { key, ...json('{"task":"echo"}', type) })
      expect([answer.status, answer.json().detail]).toEqual([
        415,
        'the body must be JSON: send Content-Type: application/json',
      ])
    }
  })

  test.each([
    [
      'GET',
      '/jobs/vera',
      undefined,
      'id: "vera" is not valid: it must be the id of a job, a whole number such as 42',
    ],
    [
      'GET',
      '/jobs?status=odd',
      undefined,
      'status: "odd" in the query is not valid: it must be one or more of awaiting_approval',
    ],
    [
      'DELETE',
      '/keys/vera',
      undefined,
      'id: "vera" is not valid: it must be the id of a key, a whole number such as 3',
    ],
    ['POST', '/jobs', 'null', 'the body is missing, or null: it must be an object'],
    ['POST', '/jobs', undefined, 'the body is missing, or null: it must be an object'],
    ['POST', '/jobs', '{"task":5}', 'task: 5 in the body is not valid: it must be a text'],
    [
      'POST',
      '/jobs',
      '{"task":"1st"}',
      'task: "1st" in the body is not valid: it must be a name of 1 to 100',
    ],
    [
      'GET',
      '/jobs?submittedFrom=x',
      undefined,
      'submittedFrom: "x" in the query is not valid: it must be a time such as',
    ],
  ])('%s %s %s says in words what would be right', async (method, path, body, words) => {
    const request = body === undefined ? {} : json(body)
    const { detail } = (await server.call(method, path, { key, ...request })).json<{ detail: string }>()
    expect(detail).toContain(words)
    expect(detail).not.toContain('pattern')
  })

  test('reports the supported methods for a wrong method', async () => {
    const answer = await server.at('PUT', '/api/v1/admin/workers/lanes/default')
    expect(answer.headers.allow).toBe('DELETE, GET, PATCH')
  })

  test('JSON nested 100,000 deep is refused by name and hurts nobody', async () => {
    const deep = `{"task":"x","input":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
    const answer = await server.at('POST', '/api/v1/jobs', { key, ...json(deep) })
    expect(answer.status).toBe(400)
    expect(answer.json().code).toBe('NOT_STORABLE')
  })

  test.each([
    ['what is no HTTP', 'HELLO\r\n\r\n', '400 Bad Request'],
    ['a request without a host', 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', '400 Bad Request'],
    [
      'headers that are too large',
      `GET / HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`,
      '431 Request Header Fields Too Large',
    ],
    [
      'an expectation that nobody knows',
      'POST / HTTP/1.1\r\nHost: x\r\nExpect: cake\r\nContent-Length: 0\r\n\r\n',
      '417 Expectation Failed',
    ],
  ])('%s gets an error with the usual headers, and its connection is closed', async (_, request, status) => {
    const { port } = new URL(server.url)
    const said = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), '127.0.0.1', () => socket.write(request))
      let text = ''
      socket.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      socket.on('end', () => resolve(text))
      socket.on('error', reject)
    })
    expect(said.split('\r\n')[0]).toBe(`HTTP/1.1 ${status}`)
    expect(said).toContain('application/problem+json')
    expect(said).toContain('x-content-type-options: nosniff')
    const [, id] = /^x-request-id: (.+?)\r$/m.exec(said) ?? []
    expect(JSON.parse(said.split('\r\n\r\n')[1]!)).toMatchObject({ code: 'INVALID_ARGUMENT', requestId: id })
  })

  test('a bug tells an id and nothing else; the log has the cause under it', async () => {
    // What nobody foresaw: the statement of this route finds a column gone.
    await database.admin('alter table sluice.lanes rename column updated_by to updated_bye')
    try {
      const answer = await server.call('GET', '/admin/workers/lanes', { key })
      expect(answer.status).toBe(500)
      const problem = answer.json<{ code: string; requestId: string; detail: string }>()
      expect(problem.code).toBe('INTERNAL')
      expect(answer.text).not.toContain('updated_by')
      const line = server
        .log()
        .split('\n')
        .find((each) => each.includes(problem.requestId) && each.includes('updated_by'))
      expect(line).toBeDefined()
    } finally {
      await database.admin('alter table sluice.lanes rename column updated_bye to updated_by')
    }
  })
})

test('answers carry headers that keep browsers from guessing, keeping and framing', async () => {
  for (const path of ['/healthz', '/nowhere', '/api/v1/jobs/%', '/api/v1/jobs/%ff']) {
    const answer = await server.at('GET', path)
    expect(answer.headers, path).toMatchObject({
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
      'content-security-policy': expect.stringContaining("frame-ancestors 'none'"),
    })
  }
})

test('keys and headers are in no line of the log', async () => {
  await server.call('GET', '/jobs/1', { key, headers: { cookie: 'sluice=canary-cookie' } })
  await server.call('GET', `/jobs/1?key=${key}`, { key })
  expect(server.log()).not.toContain(key)
  expect(server.log()).not.toContain('canary-cookie')
})

test('headers that hold secrets are left out, should somebody log them', async () => {
  const headers = {
    authorization: 'Bearer canary-1',
    cookie: 'canary-2',
    'x-sluice-csrf': 'canary-3',
    host: 'seen',
  }
  server.http.log.info({ headers, req: { headers } }, 'logged by mistake')
  expect(server.log()).toContain('seen')
  expect(server.log()).not.toContain('canary-')
})

test('a list of 300,000 items that are all wrong is refused as quickly as it is read', async () => {
  const raw = `{"jobs":[${'{},'.repeat(300_000)}{}]}`
  const startedAt = performance.now()
  JSON.parse(raw)
  const readMs = performance.now() - startedAt
  const answer = await server.call('POST', '/jobs/bulk', { key, ...json(raw) })
  expect(answer.status).toBe(400)
  expect(answer.json()).toMatchObject({
    code: 'INVALID_ARGUMENT',
    argument: 'jobs',
    detail: expect.stringContaining('found 300001 items in the body; the maximum is'),
  })
  // To look at each of them took a hundred times as long as to read them.
  expect(performance.now() - startedAt).toBeLessThan(1000 + 20 * readMs)
})
