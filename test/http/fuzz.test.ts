import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { type Answer, type Request, useServer } from '../support/http-server.ts'

// Requests made up from the server's own description, by somebody who may do everything. Nothing of it may be a fault of the
// server, and whatever is refused must leave everything as it was.

const echo = task({ name: 'echo', run: async (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, { tasks: [echo], budgets: { default: 3, echo: { gpu0: '24GB' } } })
const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 1e9))
/** Requests per route; more for a longer search. */
const RUNS = Number(process.env.SLUICE_FUZZ ?? 20)
let key = ''

interface Operation {
  readonly method: string
  readonly path: string
  readonly query: readonly string[]
  readonly fields: readonly string[]
  readonly body: Schema | undefined
}
const operations: Operation[] = []

interface Schema {
  readonly type?: string | readonly string[]
  readonly properties?: Record<string, Schema>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly pattern?: string
  readonly format?: string
  readonly minimum?: number
  readonly examples?: readonly unknown[]
}
interface Described {
  readonly parameters?: readonly { readonly in: string; readonly name: string }[]
  readonly requestBody?: { readonly content?: Record<string, { readonly schema?: Schema }> }
}

beforeAll(async () => {
  key = await server.keyOf('platform_admin', 'fuzz')
  await server.app.submit('echo', { n: 1 })
  const { paths } = (await server.at('GET', '/openapi.json')).json<{
    paths: Record<string, Record<string, Described>>
  }>()
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, described] of Object.entries(methods)) {
      const schema = described.requestBody?.content?.['application/json']?.schema
      operations.push({
        method: method.toUpperCase(),
        path,
        query: described.parameters?.filter((each) => each.in === 'query').map(({ name }) => name) ?? [],
        body: schema,
        fields: [schema, ...(schema?.anyOf ?? [])].flatMap((each) => Object.keys(each?.properties ?? {})),
      })
    }
  }
  expect(operations.length).toBeGreaterThan(30)
})

const NASTY_TEXTS = [
  '',
  ' ',
  '0',
  '-1',
  '1e309',
  '9223372036854775808',
  '00000000000000000001',
  '1',
  'default',
  'echo',
  'a\u0000b',
  '\ud800',
  '\u202e\u0000',
  '__proto__',
  'constructor',
  'toString',
  '../../etc/passwd',
  '%00',
  "'; drop table sluice.jobs; --",
  '${{ input }}',
  '$1',
  '\\u0000',
  'NaN',
  'null',
  '2031-99-99T00:00:00Z',
  '💥'.repeat(300),
  'x'.repeat(5000),
]

const nastyText = fc.oneof(fc.constantFrom(...NASTY_TEXTS), fc.string({ unit: 'binary', maxLength: 30 }))
const nastyValue: fc.Arbitrary<unknown> = fc.oneof(
  nastyText,
  fc.constantFrom(null, true, false, 0, -0, -1, 1.5, 1e308, -1e308, 2 ** 53, [], {}, [[]], { '': '' }),
  fc.array(nastyText, { maxLength: 60 }),
  fc.dictionary(nastyText, nastyText, { maxKeys: 5 }),
  fc.jsonValue({ maxDepth: 4 }),
  fc.nat(2000).map((depth) => JSON.parse(`${'['.repeat(depth + 1)}${']'.repeat(depth + 1)}`) as unknown),
)

const WORDS = [
  'echo',
  'default',
  'interactive',
  '1',
  '2',
  '0',
  '1h',
  '15s',
  'viewer',
  'ann',
  '* * * * *',
  'x',
]

/** A value that the schema would let pass, or nearly. */
function sample(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(sample))
  const types = [schema.type ?? 'any'].flat()
  return fc.oneof(
    ...types.map((type): fc.Arbitrary<unknown> => {
      if (type === 'null') return fc.constant(null)
      if (type === 'boolean') return fc.boolean()
      if (type === 'integer' || type === 'number')
        return fc.integer({ min: schema.minimum ?? 0, max: (schema.minimum ?? 0) + 3 })
      if (type === 'array') return fc.array(sample(schema.items ?? {}), { minLength: 1, maxLength: 3 })
      if (type === 'object') return objectOf(schema)
      if (type !== 'string') return fc.jsonValue({ maxDepth: 2 })
      if (schema.format === 'date-time') return fc.constant('2031-05-01T08:00:00Z')
      const fitting = WORDS.filter((word) => new RegExp(schema.pattern ?? '').test(word))
      return fc.constantFrom(...(schema.examples ?? []), ...(fitting.length === 0 ? WORDS : fitting))
    }),
  )
}

function objectOf({ properties = {}, required = [] }: Schema): fc.Arbitrary<unknown> {
  const fields = Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, sample(field)]))
  return fc.record(fields, { requiredKeys: [...required] })
}

/** A good body with one field, somewhere at the top, replaced by something else or added. */
function spoilt(schema: Schema, names: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.tuple(sample(schema), fc.option(fc.tuple(names, nastyValue))).map(([body, spoil]) => {
    if (spoil === null || typeof body !== 'object' || body === null) return JSON.stringify(body)
    return JSON.stringify({ ...body, [spoil[0]]: spoil[1] })
  })
}

function bodyOf(
  schema: Schema | undefined,
  fields: readonly string[],
): fc.Arbitrary<Pick<Request, 'raw' | 'headers'>> {
  const names = fc.oneof(
    { weight: 4, arbitrary: fields.length === 0 ? nastyText : fc.constantFrom(...fields) },
    { weight: 1, arbitrary: nastyText },
  )
  const object = fc
    .array(fc.tuple(names, nastyValue), { maxLength: 5 })
    // By hand: "__proto__" is a key like others in JSON, and the same key may come twice.
    .map(
      (pairs) =>
        `{${pairs.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value) ?? 'null'}`).join(',')}}`,
    )
  const raw = fc.oneof(
    { weight: 6, arbitrary: object },
    { weight: 6, arbitrary: schema === undefined ? object : spoilt(schema, names) },
    { weight: 2, arbitrary: nastyValue.map((value) => JSON.stringify(value) ?? 'null') },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)) },
    {
      weight: 1,
      arbitrary: fc.constantFrom('{', '{"a":}', '[1,]', '\ufeff{}', '{"a":1}{"b":2}', '"\\ud800"', '1e999'),
    },
  )
  const type = fc.constantFrom(
    ...Array<string>(12).fill('application/json'),
    'application/json; charset=utf-16',
    'application/json; charset="utf-8"',
    'application/merge-patch+json',
    'text/plain',
    'multipart/form-data; boundary=x',
    'application/x-www-form-urlencoded',
    'x'.repeat(300),
  )
  return fc.record({ raw, headers: type.map((each) => ({ 'content-type': each })) })
}

function requestTo({
  method,
  path,
  query,
  fields,
  body: described,
}: Operation): fc.Arbitrary<readonly [string, Request]> {
  const holes = [...path.matchAll(/\{(\w+)\}/g)].length
  const names = query.length === 0 ? nastyText : fc.oneof(fc.constantFrom(...query), nastyText)
  const none: fc.Arbitrary<Pick<Request, 'raw' | 'headers'>> = fc.constant({})
  const body =
    method === 'GET' || method === 'HEAD'
      ? none
      : fc.oneof({ weight: 5, arbitrary: bodyOf(described, fields) }, { weight: 1, arbitrary: none })
  return fc
    .tuple(
      fc.array(nastyText, { minLength: holes, maxLength: holes }),
      fc.array(fc.tuple(names, nastyText), { maxLength: 4 }),
      body,
      fc.constantFrom(
        {},
        {},
        {},
        { 'idempotency-key': '' },
        { 'idempotency-key': 'x'.repeat(900) },
        { 'last-event-id': '-1' },
      ),
    )
    .map(([params, pairs, sent, headers]) => {
      let at = 0
      const filled = path.replaceAll(/\{\w+\}/g, () => encode(params[at++]!))
      const search = pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join('&')
      const request: Request = {
        ...sent,
        headers: { ...headers, ...sent.headers },
      }
      return [search === '' ? filled : `${filled}?${search}`, request] as const
    })
}

/** As a client would, and a lone surrogate as no client can. */
function encode(text: string): string {
  return /\p{Surrogate}/u.test(text) ? '%ED%A0%80' : encodeURIComponent(text)
}

/** Everything that a request could change, but for what is written about every request. */
async function state(): Promise<string> {
  const tables = await database.sql<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'sluice'
      and tablename not in ('audit', 'duties', 'watch', 'samples', 'waiters', 'snapshots', 'tallies', 'recoveries', 'migrations', 'idempotency_keys', 'submission_answers') order by 1`,
  )
  const parts = tables.map(({ name }) => {
    const without = `to_jsonb(t) - array['last_used_at', 'seen_at']`
    return `select '${name}' as name, count(*) as rows, coalesce(sum(hashtextextended((${without})::text, 0)), 0) as hash from sluice.${name} t`
  })
  return JSON.stringify(await database.sql(parts.join(' union all ')))
}

test(`made-up requests to every route are answered without a fault, and change nothing when refused (seed ${seed})`, {
  timeout: 120_000 + RUNS * 3000,
}, async () => {
  let good = 0
  for (const operation of operations) {
    let before = await state()
    const check = async ([path, request]: readonly [string, Request]): Promise<void> => {
      const answer: Answer = await server.at(operation.method, path, { key, hangUp: true, ...request })
      const what = `${operation.method} ${path} ${String(request.raw)} -> ${answer.status} ${answer.text}`
      expect(answer.status, what).toBeLessThan(500)
      if (answer.status < 400) {
        good++
        before = await state()
        return
      }
      expect(answer.headers['content-type'], what).toBe('application/problem+json')
      expect(answer.json().code, what).toMatch(/^[A-Z_]+$/)
      expect(answer.text, what).not.toMatch(/ at .*\.(ts|js):\d+|pg_|SQLSTATE|syntax error/)
    }
    await fc.assert(fc.asyncProperty(requestTo(operation), check), {
      seed,
      numRuns: RUNS,
      endOnFailure: true,
    })
    expect(await state(), `${operation.method} ${operation.path}: what is stored`).toBe(before)
    // It may have revoked itself, as it may do everything.
    if ((await server.call('GET', '/session', { key })).status !== 200)
      key = await server.keyOf('platform_admin', `fuzz after ${operation.path}`)
  }
  // Otherwise everything is refused at the door, and nothing was tried.
  expect(good).toBeGreaterThan(100)
})
