import { request as send } from 'node:http'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { type Answer, useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const later = task({ name: 'later', lane: 'closed', run: async (_: unknown) => null })
const database = useDatabase()
const server = useServer(database, { tasks: [later], lanes: { closed: { enabled: false } } })
let key = ''
let held = ''

beforeAll(async () => {
  key = await server.keyOf('submitter', 'ann')
})

beforeEach(async () => {
  held = (await submit({ task: 'later', key: 'held' })).json<{ id: string }>().id
  await server.app.setAdmission({ maxActive: 1 })
})

afterEach(async () => {
  await server.app.setAdmission({ maxActive: null })
  await server.app.cancelMany({})
})

const submit = (body: unknown, headers: Record<string, string> = {}, by = key): Promise<Answer> =>
  server.call('POST', '/jobs', { key: by, body, headers })

/** Counts lookups of keys from now on. */
function countLookups(app: Sluice): () => number {
  const calls = app.services.calls as { run: typeof app.services.calls.run }
  const { run } = calls
  let count = 0
  calls.run = (statement, values) => {
    if (statement.name === 'find_keys') count++
    return run(statement, values as never)
  }
  return () => {
    calls.run = run
    return count
  }
}

/** Sends a body piece by piece, each when the one before is on its way. */
function inParts(parts: readonly string[]): Promise<{ status: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'content-length': String(parts.join('').length),
    }
    const request = send(`${server.url}/api/v1/jobs`, { method: 'POST', headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('end', () => resolve({ status: response.statusCode, text }))
    })
    request.on('error', reject)
    const next = (n: number): void => {
      if (n === parts.length) request.end()
      else request.write(parts[n]!, () => setImmediate(next, n + 1))
    }
    next(0)
  })
}

async function countJobs(): Promise<number> {
  return (await database.sql<{ n: number }>('select count(*)::integer as n from sluice.jobs'))[0]!.n
}

test('of many that are refused few have their key looked up, and all hear the same', async () => {
  const first = await submit({ task: 'later' })
  const lookups = countLookups(server.app)
  const answers: Answer[] = []
  for (let n = 0; n < 200; n++) answers.push(await submit({ task: 'later', input: { n } }))
  expect(lookups()).toBeLessThan(100)
  const shape = ({ status, headers, json }: Answer) => {
    const { requestId, retryAfter, detail, ...rest } = json<Record<string, unknown>>()
    expect(requestId).toBe(headers['x-request-id'])
    expect(String(retryAfter)).toBe(headers['retry-after'])
    expect(detail).toContain(`try again in ${retryAfter} s`)
    const { date, connection, 'keep-alive': keepAlive, ...own } = headers
    const { 'x-request-id': id, 'retry-after': after, 'content-length': length, ...same } = own
    return { status, rest, same }
  }
  expect(shape(first)).toMatchObject({ status: 429, rest: { code: 'ADMISSION_REJECTED', ceiling: 1 } })
  for (const answer of answers) expect(shape(answer)).toEqual(shape(first))
  expect(new Set(answers.map(({ headers }) => headers['x-request-id'])).size).toBe(200)
})

test('each leaves its line in the log and its count in the metrics', async () => {
  const lines = () => server.log().match(/"status":429.*"by":"ann"/g)?.length ?? 0
  const counted = async () =>
    Number(/^sluice_admission_refused_total (\d+)$/m.exec((await server.at('GET', '/metrics')).text)?.[1])
  const before = { lines: lines(), counted: await counted() }
  const answers: Answer[] = []
  for (let n = 0; n < 50; n++) answers.push(await submit({ task: 'later' }))
  expect(answers.every(({ status }) => status === 429)).toBe(true)
  await until(async () => (await counted()) - before.counted === 50, 'the metrics to be read anew')
  expect(lines() - before.lines).toBe(50)
  for (const { headers } of answers) expect(server.log()).toContain(`"reqId":"${headers['x-request-id']}"`)
})

describe('right after a refusal', () => {
  /** Until the server knows both: that there is no room, and whose key it is. */
  beforeEach(async () => {
    for (let n = 0; n < 5; n++) expect((await submit({ task: 'later' })).status).toBe(429)
  })

  test('a submission attaches to an active job, and a repeat gets its answer', async () => {
    const attached = await submit({ task: 'later', key: 'held' })
    expect([attached.status, attached.json()]).toEqual([200, { id: held, attached: true }])
    const escaped = await server.call('POST', '/jobs', { key, raw: '{"task":"later","\\u006bey":"held"}' })
    expect(escaped.json()).toEqual({ id: held, attached: true })

    await server.app.setAdmission({ maxActive: 2 })
    const headers = { 'idempotency-key': `once-${held}` }
    const first = await submit({ task: 'later' }, headers)
    expect(first.status).toBe(202)
    expect((await submit({ task: 'later' })).status).toBe(429)
    const again = await submit({ task: 'later' }, headers)
    expect([again.status, again.json()]).toEqual([202, first.json()])
    expect(again.headers['idempotency-replayed']).toBe('true')
  })

  test.each<[string, { body?: unknown; raw?: string | Buffer; headers?: Record<string, string> }, number]>([
    ['a body that is no JSON', { raw: '{"task":' }, 400],
    ['bytes that are no UTF-8', { raw: Buffer.from('{"task":"later","input":"\xff"}', 'latin1') }, 400],
    ['an empty body', { raw: '' }, 400],
    ['an unknown field', { body: { task: 'later', prioritty: 1 } }, 400],
    ['a task and a workflow', { body: { task: 'later', workflow: 'later' } }, 400],
    ['neither', { body: {} }, 400],
    ['another content type', { raw: 'task=later', headers: { 'content-type': 'text/plain' } }, 415],
    ['a long body', { body: { task: 'later', input: 'x'.repeat(100_000) } }, 429],
    [
      'a content type in capitals',
      { raw: '{"task":"later"}', headers: { 'content-type': 'application/JSON' } },
      429,
    ],
  ])('%s gets the answer it always gets', async (_, request, status) => {
    expect((await server.call('POST', '/jobs', { key, ...request })).status).toBe(status)
  })

  test('a body that comes in parts is read to its end', async () => {
    const { status, text } = await inParts(['{"task":', '"later"', ',"key":"held"}'])
    expect([status, JSON.parse(text)]).toEqual([200, { id: held, attached: true }])
    expect((await inParts(['{"task":', '"later"}'])).status).toBe(429)
  })

  test('a caller without permission to submit is rejected, as is one without a key', async () => {
    const viewer = await server.keyOf('viewer')
    for (let n = 0; n < 3; n++) {
      expect((await submit({ task: 'later' }, {}, viewer)).status).toBe(403)
      expect((await submit({ task: 'later' }, {}, 'slk_wrong')).status).toBe(401)
      expect((await server.call('POST', '/jobs', { body: { task: 'later' } })).status).toBe(401)
    }
  })

  test('a revoked key reads nothing from then on, is let in nowhere, and soon hears why', async () => {
    const mine = await server.keyOf('submitter', 'eve')
    for (let n = 0; n < 3; n++) expect((await submit({ task: 'later' }, {}, mine)).status).toBe(429)
    await database.sql(`update sluice.api_keys set revoked_at = now() where name = 'eve'`)
    expect((await submit({ task: 'later', key: 'held' }, {}, mine)).status).toBe(401)
    expect((await server.call('GET', '/jobs', { key: mine })).status).toBe(401)
    const before = await countJobs()
    await server.app.setAdmission({ maxActive: 10 })
    expect((await submit({ task: 'later' }, {}, mine)).status).toBe(401)
    expect(await countJobs()).toBe(before)
  })

  test('a revoked key is refused for want of room for 100 ms at most', async () => {
    const mine = await server.keyOf('submitter', 'mallory')
    for (let n = 0; n < 3; n++) expect((await submit({ task: 'later' }, {}, mine)).status).toBe(429)
    await database.sql(`update sluice.api_keys set revoked_at = now() where name = 'mallory'`)
    const revokedAt = performance.now()
    const seen = await until(async () => {
      const askedAt = performance.now()
      const { status } = await submit({ task: 'later' }, {}, mine)
      expect([401, 429]).toContain(status)
      if (status === 429) expect(askedAt - revokedAt).toBeLessThan(100)
      return status === 401
    }, 'the key to be refused')
    expect(seen).toBe(true)
  })
})
