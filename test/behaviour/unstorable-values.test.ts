import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { migrate } from '../../src/db/migrate.ts'
import { type Sluice, SluiceError, sluice, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { withDatabase } from '../support/global-setup.ts'

const database = useDatabase()

function nested(depth: number): unknown {
  let value: unknown = 'core'
  for (let i = 0; i < depth; i++) value = [value]
  return value
}

function cycle(): unknown {
  const value: Record<string, unknown> = {}
  value.self = value
  return value
}

/** What can be neither stored nor changed silently, with what the error says about it. */
const UNSTORABLE: [string, () => unknown, RegExp][] = [
  ['a NUL', () => 'a\0b', /NUL character/],
  ['a NUL in a name', () => ({ 'a\0b': 1 }), /NUL character/],
  ['an unpaired surrogate', () => ['\ud83d'], /an unpaired surrogate/],
  ['the other half', () => ({ x: '\ude00\ud83d' }), /an unpaired surrogate/],
  ['NaN', () => ({ n: Number.NaN }), /NaN/],
  ['Infinity', () => [1, Number.NEGATIVE_INFINITY], /Infinity/],
  ['a BigInt', () => ({ n: 1n }), /BigInt/],
  ['a cycle', cycle, /circular/i],
  ['depth 100,000', () => nested(100_000), /nested too deep/],
  ['depth 1,001', () => nested(1001), /nested deeper than 1000 levels/],
  ['17 MB', () => 'x'.repeat(17 * 1024 * 1024), /bytes long, more than/],
  ['a function', () => () => 1, /function has no JSON form/],
  ['a symbol', () => Symbol('s'), /symbol has no JSON form/],
  [
    'a property that throws',
    () => ({
      get x() {
        throw new Error('not today')
      },
    }),
    /not today/,
  ],
]

const proto = JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1, "toString": "text"}')

/** What comes back exactly as it went in. */
const STORABLE: [string, unknown][] = [
  ['nothing', null],
  ['a text', 'grüße 😀 \u2028 \\u0000 "quoted" \t\n'],
  ['an empty text', ''],
  ['numbers', [0, -1, 1.5, 1e300, -1e-300, Number.MAX_SAFE_INTEGER, Number.MIN_VALUE]],
  ['names that mean something in JavaScript', proto],
  ['depth 1,000', nested(1000)],
  ['10 MB', 'y'.repeat(10 * 1024 * 1024)],
  ['a name of many kinds', { '': 1, ' ': 2, 'a.b': 3, '😀': 4, $1: 5 }],
]

type How = 'result' | 'step' | 'checkpoint'
let value: () => unknown
const leaves = task({
  name: 'leaves',
  retry: { attempts: 5, delay: '1h' },
  run: async (how: How, ctx) => {
    if (how === 'step') return await ctx.step('s', value)
    if (how === 'checkpoint') {
      await ctx.checkpoint.set(value())
      return await ctx.checkpoint.get()
    }
    return value()
  },
})

const echo = task({ name: 'echo', run: (input: unknown) => input })
let thrown: () => unknown
const throws = task({
  name: 'throws',
  retry: { attempts: 1 },
  run: (when: string) => {
    if (when === 'later') return Promise.reject(thrown())
    throw thrown()
  },
})

const odd = task({
  name: 'odd',
  retry: { attempts: 1 },
  run: (how: string): unknown => {
    const refuse = (what: string) => () => {
      throw new Error(`no ${what} for you`)
    }
    if (how === 'toJSON') return { toJSON: refuse('JSON') }
    if (how === 'then') return Object.defineProperty({}, 'then', { get: refuse('then') })
    // biome-ignore lint/suspicious/noThenProperty: this is about such objects
    return { then: (_: unknown, reject: (error: Error) => void) => reject(new Error('not kept')) }
  },
})
const chatty = task({
  name: 'chatty',
  run: (_: unknown, ctx) => {
    ctx.log.info('a\0b \ud83d c')
    ctx.log.warn('z'.repeat(10_000_000))
    ctx.log.error({
      [Symbol.for('nodejs.util.inspect.custom')]() {
        throw new Error('no')
      },
    })
    ctx.log.debug('after')
    ctx.progress(0.25, 'p\0q')
  },
})
const named = task({
  name: 'named',
  retry: { attempts: 1 },
  run: (name: string, ctx) => ctx.step(`${name}\0`, () => 1),
})
const gate = new Gate()
const heavy = task({
  name: 'heavy',
  run: (n: number) => gate.pass().then(() => String.fromCharCode(97 + n).repeat(9_000_000)),
})

// One worker for most of the file: starting one for each of the many cases would take most of the time.
const silent = { debug() {}, info() {}, warn() {}, error() {} }
const tasks = [leaves, echo, throws, odd, chatty, named, heavy]
let app: Sluice
beforeAll(async () => {
  app = await sluice({
    database: database.url,
    tasks,
    lanes: { all: { slots: 5, tasks: tasks.map((each) => each.name) } },
    log: silent,
  })
  await app.work({ capacity: 5 })
})
afterAll(async () => {
  await app.close()
  expect(await database.sql(`select task from sluice.jobs where state = 'running'`)).toEqual([])
})

describe('a value that cannot be stored', () => {
  test.each(UNSTORABLE)(
    '%s is refused as input, alone, in bulk and beside others',
    async (name, make, message) => {
      const refused = { code: 'NOT_STORABLE', message: expect.stringMatching(message) }
      const tags = [name]

      const [bad, good] = await Promise.allSettled([
        app.submit(echo, make(), { tags }),
        app.submit(echo, 'good', { tags }),
      ])
      expect(bad).toMatchObject({ reason: refused })
      expect(good.status).toBe('fulfilled')
      await expect(app.submitMany(echo, ['good', make()], { tags })).rejects.toMatchObject(refused)
      await expect(app.submit(echo, make(), { tags, key: 'k' })).rejects.toMatchObject(refused)
      expect(await app.listJobs({ tag: name })).toMatchObject([{ input: 'good' }])
    },
  )

  test.each(UNSTORABLE)(
    '%s as result, step or checkpoint fails the job at once, with the cause',
    async (_, make, message) => {
      value = make
      for (const how of ['result', 'step', 'checkpoint'] as const) {
        const job = await app.submit(leaves, how)
        await expect(job.result(), how).rejects.toMatchObject({
          code: 'JOB_FAILED',
          error: expect.stringMatching(message),
        })
        expect(await app.getJob(job.id)).toMatchObject({ status: 'failed', attempt: 1 })
      }
    },
  )

  test.each([
    ['a NUL', 'a\0b'],
    ['an unpaired surrogate', 'a\ud83d'],
  ])('%s is refused in a key, a tag, a task and a lane', async (_, text) => {
    for (const options of [{ key: text }, { tags: ['ok', text] }, { lane: text }]) {
      await expect(app.submit(leaves, 'result', options)).rejects.toMatchObject({ code: 'NOT_STORABLE' })
    }
    await expect(app.submit(text, 1)).rejects.toBeInstanceOf(SluiceError)
    expect(await app.listJobs({ task: 'leaves', status: ['queued'] })).toEqual([])
  })
})

test.each(STORABLE)('%s comes back unchanged as input, result, step and checkpoint', async (_, sample) => {
  value = () => sample
  const job = await app.submit(echo, sample)
  expect(await job.result()).toEqual(sample)
  expect((await app.getJob(job.id)).input).toEqual(sample)
  for (const how of ['result', 'step', 'checkpoint'] as const) {
    expect(await app.submit(leaves, how).then((each) => each.result()), how).toEqual(sample)
  }
  expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
})

test('values of other kinds are stored as JSON has them', async () => {
  const when = new Date('2030-01-01T00:00:00Z')

  const job = await app.submit(echo, { when, missing: undefined, list: [undefined], zero: -0 })

  expect(await job.result()).toEqual({ when: when.toISOString(), list: [null], zero: 0 })
  expect(await app.submit(echo, undefined).then((each) => each.result())).toBeNull()
})

const THROWN: [string, () => unknown, RegExp][] = [
  ['a text with NUL and half a pair', () => new Error('a\0b \ud83d c'), /^a\u2400b \ufffd c$/],
  ['ten megabytes', () => new Error('e'.repeat(10_000_000)), /^e+… \(10000000 characters\)$/],
  ['no error at all', () => undefined, /^undefined$/],
  ['null', () => null, /^null$/],
  ['a symbol', () => Symbol('s'), /Symbol\(s\)/],
  ['a BigInt', () => 7n, /7/],
  ['a cycle', cycle, /^\{"self":"\[circular\]"\}$/],
  ['an object', () => ({ reason: 'plain' }), /\{"reason":"plain"\}/],
  ['a deep object', () => nested(100_000), /^\[+"\[…\]"\]+$/],
  ['an empty error', () => new RangeError(), /^RangeError without a message, thrown at .*unstorable-values/],
  [
    'an error with causes',
    () => new Error('outer', { cause: new Error('inner', { cause: 'root' }) }),
    /^outer \(caused by inner \(caused by root\)\)|^outer \(caused by inner\) \(caused by root\)$/,
  ],
  [
    'an error that is its own cause',
    () => {
      const error = new Error('loop')
      error.cause = error
      return error
    },
    /^loop/,
  ],
  ['an error whose message is no text', () => Object.assign(new Error(), { message: Symbol('m') }), /./],
  [
    'an error whose message throws',
    () =>
      Object.defineProperty(new Error('x'), 'message', {
        get() {
          throw new Error('never')
        },
      }),
    /./,
  ],
  ...(['name', 'cause', 'stack', 'kind'] as const).map((name): (typeof THROWN)[number] => [
    `an error whose ${name} throws`,
    () =>
      Object.defineProperty(new Error('still told'), name, {
        enumerable: true,
        get() {
          throw new Error('never')
        },
      }),
    /^still told$/,
  ]),
  [
    'a proxy that has been revoked',
    () => {
      const { proxy, revoke } = Proxy.revocable({}, {})
      revoke()
      return proxy
    },
    /cannot be read/,
  ],
  [
    'an object that answers once',
    () => {
      let looks = 0
      return {
        get reason() {
          if (++looks > 1) throw new Error('never')
          return 'seen once'
        },
      }
    },
    /seen once/,
  ],
  [
    'a proxy that refuses everything',
    () =>
      new Proxy(
        {},
        {
          get() {
            throw new Error('never')
          },
          has() {
            throw new Error('never')
          },
          getPrototypeOf() {
            throw new Error('never')
          },
        },
      ),
    /./,
  ],
]

test.each(THROWN)('a task that throws %s fails with a text that can be stored', async (_, make, message) => {
  thrown = make
  for (const when of ['now', 'later']) {
    const job = await app.submit(throws, when)
    await expect(job.result()).rejects.toMatchObject({
      code: 'JOB_FAILED',
      error: expect.stringMatching(message),
    })
  }
})

test('a result that fails while it is turned to JSON, or pretends to be a promise, fails only its job', async () => {
  for (const [how, message] of [
    ['toJSON', 'no JSON for you'],
    ['then', 'no then for you'],
    ['promise', 'not kept'],
  ] as const) {
    const job = await app.submit(odd, how)
    await expect(job.result(), how).rejects.toMatchObject({ message: expect.stringContaining(message) })
  }
})

test('log lines and progress with unstorable text are stored with what could be kept', async () => {
  const job = await app.submit(chatty, null)
  await job.result()

  const lines = await app.readLogs(job.id)
  expect(lines.map((line) => line.level)).toEqual(['info', 'warn', 'error', 'debug'])
  expect(lines[0]!.line).toBe('a\u2400b \ufffd c')
  expect(lines[1]!.line).toMatch(/^z{8192}… \(10000000 characters\)$/)
  expect(lines[3]!.line).toBe('after')
  expect(await app.getJob(job.id)).toMatchObject({ progress: 0.25, message: 'p\u2400q' })
})

test('a step whose name cannot be stored fails the job', async () => {
  await expect(app.submit(named, 'a').then((job) => job.result())).rejects.toMatchObject({
    code: 'JOB_FAILED',
  })
})

test('reasons, comments, names and filters with a NUL do no harm', async () => {
  const asks = task({ name: 'asks', approval: true, run: (_: unknown) => null })
  const own = await sluice({ database: database.url, tasks: [asks], actor: 'ev\0e', log: silent })
  try {
    const [one, two] = [await own.submit(asks, 1), await own.submit(asks, 2)]
    const refused = { code: 'INVALID_ARGUMENT' }
    await expect(own.cancel(one.id, 'no\0pe')).rejects.toMatchObject(refused)
    await expect(own.reject(two.id, 'no\ud83d')).rejects.toMatchObject(refused)
    for (const { id } of [one, two])
      expect(await own.getJob(id)).toMatchObject({ status: 'awaiting_approval', submittedBy: 'ev\u2400e' })
    for (const filter of [{ task: 'a\0' }, { lane: 'a\0' }, { key: 'a\0' }, { tag: 'a\0' }]) {
      await expect(own.listJobs(filter)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    }
    await expect(own.setLane('a\0', { slots: 1 })).rejects.toMatchObject({ code: 'LANE_NOT_FOUND' })
    await own.work({ name: 'w\0' })
    expect((await own.listWorkers()).map((worker) => worker.name)).toContain('w\u2400')
  } finally {
    await own.close()
  }
})

test('results that are too much for one statement are recorded in several', async () => {
  const jobs = await app.submitMany(heavy, [0, 1, 2, 3, 4])
  await gate.arrived(5)
  gate.open()

  for (const [n, job] of jobs.entries())
    expect(await job.result()).toMatch(String.fromCharCode(97 + n).repeat(100))
  const rows = await database.sql(
    `select distinct o.xmin::text from sluice.outcomes o join sluice.job_data d using (id)
      where d.task = 'heavy' and length(o.result::text) = 9000002`,
  )
  expect(rows.length).toBeGreaterThan(1)
})

describe('in a database whose encoding lacks most characters', () => {
  const name = `latin_${database.name}`
  const url = withDatabase(inject('serverUrl'), name)
  const server = new pg.Client(inject('serverUrl'))
  const latin = useApps({
    url,
    sql: async (text, values) => (await client.query(text, values)).rows as never,
  })
  let client: pg.Client

  beforeAll(async () => {
    await server.connect()
    await server.query(`create database ${name} template template0 encoding 'LATIN1' locale 'C'`)
    await migrate(url)
    client = new pg.Client(url)
    await client.connect()
  })
  afterAll(async () => {
    await client.end()
    await server.query(`drop database ${name} with (force)`)
    await server.end()
  })

  test('a poison result in a batch fails only its own job', async () => {
    const speak = task({ name: 'speak', run: (n: number) => (n % 4 === 0 ? 'grüße 😀' : 'grüße') })
    const app = await latin.open({ tasks: [speak], lanes: { wide: { slots: 20, tasks: ['speak'] } } })
    const jobs = await app.submitMany(
      speak,
      Array.from({ length: 20 }, (_, n) => n),
    )
    await app.work({ capacity: 20 })

    const outcomes = await Promise.allSettled(jobs.map((job) => job.result()))
    for (const [n, outcome] of outcomes.entries()) {
      if (n % 4 !== 0) expect(outcome).toEqual({ status: 'fulfilled', value: 'grüße' })
      else {
        expect(outcome).toMatchObject({
          reason: {
            code: 'JOB_FAILED',
            error: expect.stringMatching(/^the outcome cannot be stored/),
          },
        })
      }
    }
    expect(await stuck(app)).toEqual([])
  })

  test('a poison error, step, checkpoint, log line or input is refused or lost without holding up its job', async () => {
    const sad = task({
      name: 'sad',
      retry: { attempts: 1 },
      run: async (how: string, ctx) => {
        if (how === 'log') return ctx.log.info('😀')
        if (how === 'step') return await ctx.step('s', () => '😀')
        if (how === 'checkpoint') return await ctx.checkpoint.set('😀')
        throw new Error('😀')
      },
    })
    const app = await latin.open({ tasks: [sad] })
    await app.work()

    await expect(app.submit('sad', '😀')).rejects.toMatchObject({ code: 'NOT_STORABLE' })
    expect(await app.submit(sad, 'log').then((job) => job.result())).toBeNull()
    for (const how of ['step', 'checkpoint', 'error']) {
      await expect(
        app.submit(sad, how).then((job) => job.result()),
        how,
      ).rejects.toMatchObject({ code: 'JOB_FAILED' })
    }
    expect(await stuck(app)).toEqual([])
  })
})

async function stuck(app: Sluice): Promise<string[]> {
  return (await app.listJobs({ status: ['queued', 'running'] })).map((job) => job.id)
}
