import { beforeAll, describe, expect, test } from 'vitest'
import { loadConfig, type Sluice, sluice, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const apps = useApps(database)
const noop = task({ name: 'noop', run: (_: number) => null })

/** What a caller without types may do. */
// biome-ignore lint/suspicious/noExplicitAny: that is what is tested
type Untyped = any

/** A call, and the text of the `INVALID_ARGUMENT` it gets. */
const CALLS: [string, (app: Untyped) => unknown, string][] = [
  [
    'submit(null, 1)',
    (app) => app.submit(null, 1),
    'task: null must be a task made with task(), a workflow made with workflow(), or the name of one',
  ],
  ['submit(fn, 1)', (app) => app.submit(() => 1, 1), 'task: a function must be a task'],
  ['submit({}, 1)', (app) => app.submit({}, 1), 'task: an object must be a task'],
  [
    'submit(t, 1, null)',
    (app) => app.submit(noop, 1, null),
    'options: null must be an object with some of key, priority',
  ],
  ['submit(t, 1, "key")', (app) => app.submit(noop, 1, 'key'), 'options: "key" must be an object'],
  [
    'an unknown option of submit',
    (app) => app.submit(noop, 1, { prority: 3 }),
    'options: unknown option "prority"; did you mean priority?',
  ],
  [
    'a key of null',
    (app) => app.submit(noop, 1, { key: null }),
    'key: null must be a text of 1 to 500 characters',
  ],
  [
    'a delay that is an object',
    (app) => app.submit(noop, 1, { runAt: {} }),
    'runAt: an object must be a time, such as',
  ],
  [
    'a deadline of NaN',
    (app) => app.submit(noop, 1, { deadline: Number.NaN }),
    'deadline: NaN is not a duration',
  ],
  ['submitMany(t, null)', (app) => app.submitMany(noop, null), 'inputs: null must be a list of inputs'],
  ['submitMany(t, "abc")', (app) => app.submitMany(noop, 'abc'), 'inputs: "abc" must be a list of inputs'],
  ['submitMany(null, [1])', (app) => app.submitMany(null, [1]), 'task: null must be a task'],
  ['submitMany(t, [], null)', (app) => app.submitMany(noop, [], null), 'options: null must be an object'],
  [
    'submitMany with an unknown option',
    (app) => app.submitMany(noop, [], { keys: 1 }),
    'options: unknown option "keys"; did you mean key?',
  ],
  [
    'a job id that is a number',
    (app) => app.getJob(7),
    '7 is not a job id. A job id is a whole number, such as 42, given as text',
  ],
  ['a job id that is a BigInt', (app) => app.listAttempts(7n), 'a bigint is not a job id'],
  ['job(NaN)', (app) => app.job(Number.NaN), 'NaN is not a job id'],
  [
    'readLogs with a negative limit',
    (app) => app.readLogs('1', '0', -4),
    'limit: -4 must be a whole number from 1 to 100000',
  ],
  [
    'readLogs after nothing',
    (app) => app.readLogs('1', 'x'),
    'after: "x" must be the id of a log line, or "0"',
  ],
  ['listJobs(null)', (app) => app.listJobs(null), 'filter: null must be an object with some of '],
  [
    'an unknown filter',
    (app) => app.listJobs({ states: ['running'] }),
    'filter: unknown option "states"; did you mean status?',
  ],
  [
    'a status that is no list',
    (app) => app.listJobs({ status: 'running' }),
    'status: "running" must be a list',
  ],
  [
    'a status that is none',
    (app) => app.listJobs({ status: ['runing'] }),
    'status[0]: "runing" must be one of awaiting_approval',
  ],
  ['the children of nothing', (app) => app.listJobs({ parent: 'x' }), '"x" is not a job id'],
  ['a limit of NaN', (app) => app.listJobs({ limit: Number.NaN }), 'limit: NaN must be a whole number'],
  ['cancel(id, {})', (app) => app.cancel('1', {}), 'reason: an object must be a text'],
  ['reject without a comment', (app) => app.reject('1'), 'comment: nothing must be a text'],
  ['a priority of NaN', (app) => app.reprioritise('1', Number.NaN), 'priority: NaN must be a whole number'],
  [
    'setLane(name, null)',
    (app) => app.setLane('default', null),
    'change: null must be an object with some of slots',
  ],
  ['setLane(null, {})', (app) => app.setLane(null, {}), 'lane: null must be a text'],
  [
    'an unknown field of a lane',
    (app) => app.setLane('default', { pollMs: 5000 }),
    'change: unknown option "pollMs"; did you mean poll?',
  ],
  [
    'slots of NaN',
    (app) => app.setLane('default', { slots: Number.NaN }),
    'slots: NaN must be a whole number of at least 0, or none',
  ],
  ['resetLane(undefined)', (app) => app.resetLane(undefined), 'lane: nothing must be a text'],
  ['drainWorker(null)', (app) => app.drainWorker(null), 'worker: null must be a text'],
  ['drainWorker(name, 1)', (app) => app.drainWorker('w', 1), 'draining: 1 must be true or false'],
  ['work(null)', (app) => app.work(null), 'options: null must be an object with some of capacity'],
  [
    'an unknown option of work',
    (app) => app.work({ concurrency: 5 }),
    'options: unknown option "concurrency"; known options: capacity, name',
  ],
  [
    'a capacity of NaN',
    (app) => app.work({ capacity: Number.NaN }),
    'capacity: NaN must be a whole number, 0 (no limit) or more',
  ],
  ['a worker whose name is a number', (app) => app.work({ name: 7 }), 'name: 7 must be a text'],
  [
    'labels that are a list',
    (app) => app.work({ labels: ['gpu'] }),
    'labels: a list must be an object of texts',
  ],
  [
    'a label that is an object',
    (app) => app.work({ labels: { gpu: {} } }),
    'labels.gpu: an object must be a text, a number',
  ],
  [
    'tasks of a worker that are no list',
    (app) => app.work({ tasks: 'noop' }),
    'tasks: "noop" must be a list',
  ],
  [
    'an unknown option of the pool',
    (app) => app.work({ pool: { sise: 2 } }),
    'pool: unknown option "sise"; did you mean size?',
  ],
  ['close(null)', async (app) => app.close(null), 'options: null must be an object with some of now'],
  ['sluice(null)', () => sluice(null as Untyped), 'options: null must be an object with some of capacity'],
  [
    'an unknown option of sluice',
    () => sluice({ databse: 'x' } as Untyped),
    'options: unknown option "databse"; did you mean database?',
  ],
  ['tasks that are no list', () => sluice({ tasks: noop } as Untyped), 'tasks: an object must be a list'],
  [
    'a task that is none',
    () => sluice({ tasks: [noop, undefined] } as Untyped),
    'tasks[1]: nothing must be a task made with task()',
  ],
  ['lanes that are a list', () => sluice({ lanes: [] } as Untyped), 'lanes: a list must be an object'],
  [
    'a lane that is a number',
    () => sluice({ lanes: { a: 3 } } as Untyped),
    'lanes.a: 3 must be an object with some of tasks, slots',
  ],
  [
    'an unknown option of a lane',
    () => sluice({ lanes: { a: { slot: 3 } } } as Untyped),
    'lanes.a: unknown option "slot"; did you mean slots?',
  ],
  ['a log that is none', () => sluice({ log: console.log } as Untyped), 'log: a function must be a logger'],
  [
    'a config that was not loaded',
    () => sluice({ config: 'sluice.yaml' } as Untyped),
    'config: "sluice.yaml" must be what loadConfig() gives',
  ],
  [
    'loadConfig()',
    () => loadConfig(undefined as Untyped),
    'options: nothing must be an object with some of path, folder',
  ],
  ['task(null)', async () => task(null as Untyped), 'task: null must be an object with some of name'],
  [
    'an unknown option of a task',
    async () => task({ name: 'a', run: () => 1, onlost: 'fail' } as Untyped),
    'task: unknown option "onlost"; did you mean onLost?',
  ],
  [
    'an unknown option of a retry',
    async () => task({ name: 'a', run: () => 1, retry: { attempt: 3 } } as Untyped),
    'task "a" retry: unknown option "attempt"; did you mean attempts?',
  ],
  [
    'a timeout of NaN',
    async () => task({ name: 'a', run: () => 1, timeout: Number.NaN }),
    'task "a": timeout must be a duration above 0 and up to 24d',
  ],
  [
    'a deadline beyond what the database can add to a date',
    async () => task({ name: 'a', run: () => 1, deadline: Number.MAX_SAFE_INTEGER }),
    'task "a": deadline must be a duration above 0 and up to 36500d',
  ],
  [
    'an input that is no schema',
    async () => task({ name: 'a', run: () => 1, input: {} } as Untyped),
    'task "a": input must be a Standard Schema, found an object',
  ],
]

describe('a wrong argument is refused by its name, with what would be right', () => {
  let app: Sluice
  beforeAll(async () => {
    app = await sluice({ database: database.url, tasks: [noop] })
    return () => app.close()
  })

  test.each(CALLS)('%s', async (_, call, message) => {
    await expect((async () => call(app))()).rejects.toMatchObject({
      name: 'SluiceError',
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    })
  })

  test('and nothing has come of any of it', async () => {
    expect(await app.listJobs()).toEqual([])
    expect((await app.listLanes()).flatMap(({ operatorSet }) => operatorSet)).toEqual([])
    expect(await app.listWorkers()).toEqual([])
  })
})

test('options that are undefined count as not given', async () => {
  const app = await apps.open({ tasks: [noop], actor: undefined as Untyped })
  const job = await app.submit(noop, 1, { key: undefined, someday: undefined } as Untyped)
  expect((await app.getJob(job.id)).key).toBeNull()
})

describe('task()', () => {
  test.each(['', '1st', 'two words', '__proto__', 'x'.repeat(101), 'a\0b', 7 as never])(
    'refuses the name %j and says what a name is',
    (name) => {
      expect(() => task({ name, run: () => null })).toThrow(
        'the name must be a name of 1 to 100 letters, digits, "_", "-" or ".", starting with a letter or "_", and not __proto__',
      )
    },
  )
})
