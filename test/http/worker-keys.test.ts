import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { EVERYTHING, startTestServer, useServer } from '../support/http-server.ts'

// What a worker's key does not allow, asked for by hand.
const names = ['mail.eu', 'mail.us', 'mailer', 'payout']
const tasks = names.map((name) => task({ name, run: async (input: unknown) => input }))
const hidden = task({ name: 'mail.hidden', lane: 'system', run: async () => null })
const database = useDatabase()
const server = useServer(database, {
  tasks: [...tasks, hidden],
  stale: '10m',
  lanes: { default: { slots: null, perWorker: null } },
  fleet: { pools: { burst: { max: 3 } } },
})
let admin = ''

beforeAll(async () => {
  admin = await server.keyOf('platform_admin')
})

interface Key {
  readonly id: string
  readonly key: string
}

const MAIL = { tasks: ['mail.*'], lanes: ['default'], maxCapacity: 4 }

async function create(runs?: object, role = 'worker', by = admin) {
  const body = { name: 'gpu-box', role, ...(runs !== undefined && { runs }) }
  return server.call('POST', '/keys', { key: by, body })
}

async function keyWith(runs?: object): Promise<Key> {
  const answer = await create(runs)
  expect(answer.status, answer.text).toBe(201)
  return answer.json<{ id: string; key: string }>()
}

const narrow = async ({ id }: Key, runs: object) => {
  const answer = await server.call('PATCH', `/keys/${id}`, { key: admin, body: { runs } })
  expect(answer.status, answer.text).toBe(200)
  return answer.json()
}

const register = ({ key }: Key, more: object = {}) =>
  server.call('POST', '/workers', {
    key,
    body: { name: 'box', capacity: 4, cores: 1, tasks: [{ name: 'mail.eu' }], ...more },
  })

async function registered(key: Key, more: object = {}): Promise<string> {
  const answer = await register(key, more)
  expect(answer.status, answer.text).toBe(201)
  return answer.json<{ id: string }>().id
}

const tell = ({ key }: Key, worker: string, what: string, body: object = {}) =>
  server.call('POST', `/workers/${worker}/${what}`, { key, body })

async function take(key: Key, worker: string, free: number, waitMs = 5000) {
  const answer = await tell(key, worker, 'cycle', { running: [], free, waitMs })
  expect(answer.status, answer.text).toBe(200)
  return answer.json<{ jobs: { id: string; attempt: number }[] }>().jobs
}

async function submit(of: string, more: object = {}): Promise<string> {
  const answer = await server.call('POST', '/jobs', { key: admin, body: { task: of, ...more } })
  expect(answer.status, answer.text).toBe(202)
  return answer.json<{ id: string }>().id
}

const stateOf = async (id: string) => (await server.app.getJob(id)).status

describe('registering', () => {
  test('with a key for which nothing was named is refused, and the audit says so', async () => {
    const key = await keyWith()
    const answer = await register(key)
    expect([answer.status, answer.json()]).toMatchObject([
      403,
      {
        code: 'FORBIDDEN',
        detail: expect.stringContaining(`runs.tasks of the key with: sluice keys set ${key.id}`),
      },
    ])
    expect((await register(key, { tasks: [] })).status).toBe(201)
    const { entries } = await server.app.access.readAudit({ action: 'worker.register' })
    expect(entries[0]).toMatchObject({ actor: 'gpu-box', target: 'worker box', refused: 'FORBIDDEN' })
  })

  test.each([
    ['a task that the key does not name', { tasks: [{ name: 'payout' }] }, 'task "payout"', 'tasks'],
    ['a new task of another name', { tasks: [{ name: 'mine' }] }, 'task "mine"', 'tasks'],
    ['a name that only begins alike', { tasks: [{ name: 'mailer' }] }, 'task "mailer"', 'tasks'],
    ['a task in another lane', { tasks: [{ name: 'mail.hidden' }] }, 'lane "system"', 'lanes'],
    [
      'a new task in another lane',
      { tasks: [{ name: 'mail.new', lane: 'system' }] },
      'lane "system"',
      'lanes',
    ],
    ['a pool', { pool: 'burst', request: 'more.1' }, 'pool "burst"', 'pools'],
    ['a capacity that is too high', { capacity: 5 }, 'a capacity of 5', 'maxCapacity'],
    ['no limit on its capacity', { capacity: 0 }, 'a capacity of any size', 'maxCapacity'],
    ['a rank before that of others', { rank: -1 }, 'rank -1', 'minRank'],
  ])('with %s is refused', async (_, more, named, field) => {
    const key = await keyWith(MAIL)
    const answer = await register(key, more)
    expect([answer.status, answer.json()]).toMatchObject([
      403,
      {
        code: 'FORBIDDEN',
        detail: expect.stringContaining(`key ${key.id} does not allow ${named}`),
        argument: `runs.${field}`,
      },
    ])
  })

  test('with a new task whose jobs would pass those of everybody is refused, without jobs:prioritise', async () => {
    const key = await keyWith(MAIL)
    const high = { tasks: [{ name: 'mail.urgent', priority: 101 }] }
    expect([(await register(key, high)).status, (await register(key, high)).json()]).toMatchObject([
      403,
      {
        code: 'FORBIDDEN',
        needs: ['jobs:prioritise'],
        detail: expect.stringContaining('cannot register task "mail.urgent" with priority 101'),
      },
    ])
    await registered(key, { tasks: [{ name: 'mail.fast', priority: 100 }] })
    await registered({ id: '', key: admin }, high)
    // It is known now, and stays as it was declared.
    await registered(key, high)
  })

  test('with what the key names works', async () => {
    const key = await keyWith(MAIL)
    await registered(key, { tasks: [{ name: 'mail.eu' }, { name: 'mail.us' }] })
    await registered(await keyWith(EVERYTHING), { tasks: [{ name: 'payout' }], capacity: 0, rank: -5 })
  })
})

describe('a worker', () => {
  test('is given no job of an allowed task in a lane that its key does not allow', async () => {
    const key = await keyWith(MAIL)
    const worker = await registered(key)
    const elsewhere = await submit('mail.eu', { lane: 'interactive' })
    const here = await submit('mail.eu')
    expect((await take(key, worker, 4)).map(({ id }) => id)).toEqual([here])
    expect(await stateOf(elsewhere)).toBe('queued')
    await server.app.cancel(elsewhere)
    await tell(key, worker, 'cycle', {
      running: [],
      free: 0,
      ended: [{ id: here, attempt: 1, ending: 'completed' }],
    })
  })

  test('is given no more jobs than it registered for, however many it asks for', async () => {
    const key = await keyWith(MAIL)
    const worker = await registered(key, { capacity: 2, tasks: [{ name: 'mail.own' }] })
    const ids = await Promise.all([1, 2, 3, 4].map(() => submit('mail.own')))
    const taken = await take(key, worker, 100)
    expect(taken).toHaveLength(2)
    const running = taken.map(({ id, attempt }) => ({ id, attempt }))
    const again = await tell(key, worker, 'cycle', { running, free: 100 })
    expect(again.json()).toMatchObject({ jobs: [] })
    const ended = running.map((job) => ({ ...job, ending: 'completed' }))
    expect((await tell(key, worker, 'cycle', { running: [], free: 0, ended })).status).toBe(200)
    for (const id of ids) if ((await stateOf(id)) === 'queued') await server.app.cancel(id)
  })

  test.each([
    ['the task', { tasks: ['mail.us'] }],
    ['the lane', { lanes: ['interactive'] }],
    ['its capacity', { maxCapacity: 1 }],
    ['its rank', { minRank: 1 }],
  ])('neither reports nor keeps its jobs once its key has lost %s', async (_, less) => {
    const key = await keyWith(MAIL)
    const worker = await registered(key)
    const id = await submit('mail.eu')
    const [job] = await take(key, worker, 1)
    expect(job).toMatchObject({ id })
    expect(await narrow(key, less)).toMatchObject({ runs: { ...MAIL, pools: [], minRank: 0, ...less } })
    const lease = { id, attempt: job!.attempt }
    for (const [what, body] of [
      ['cycle', { running: [], free: 1, ended: [{ ...lease, ending: 'completed' }] }],
      ['heartbeat', {}],
      ['steps/save', { ...lease, name: 'one', result: '1' }],
      ['logs', { lines: [{ ...lease, at: '2031-05-01T08:00:00Z', level: 'info', line: 'x' }] }],
    ] as const) {
      const answer = await tell(key, worker, what, body)
      expect([what, answer.status, answer.json()]).toMatchObject([what, 403, { code: 'FORBIDDEN' }])
    }
    // Nor through a server that has not heard of it before.
    const other = await startTestServer(database.url)
    onTestFinished(() => other.stop())
    for (const what of ['heartbeat', 'cycle']) {
      const body = what === 'cycle' ? { running: [lease], free: 0 } : {}
      const answer = await other.call('POST', `/workers/${worker}/${what}`, { key: key.key, body })
      expect([what, answer.status]).toEqual([what, 403])
    }
    expect(await stateOf(id)).toBe('running')
    // Widened again, it goes on as before.
    await narrow(key, MAIL)
    if ('minRank' in less) await narrow(key, { minRank: 0 })
    const ended = [{ ...lease, ending: 'completed' }]
    expect((await tell(key, worker, 'cycle', { running: [], free: 0, ended })).status).toBe(200)
    expect(await stateOf(id)).toBe('completed')
  })
})

describe('a key', () => {
  test('cannot be given more than its maker has, unless they manage workers', async () => {
    const permissions = ['access:manage', 'workers:run']
    const made = await server.call('POST', '/roles', { key: admin, body: { name: 'foreman', permissions } })
    expect(made.status, made.text).toBe(201)
    const foreman = (await create(MAIL, 'foreman')).json<Key>()
    for (const more of [{ tasks: ['*'], lanes: ['default'] }, { ...MAIL, maxCapacity: null }, EVERYTHING])
      expect((await create(more, 'foreman', foreman.key)).status, JSON.stringify(more)).toBe(403)
    const own = { runs: EVERYTHING }
    const widened = await server.call('PATCH', `/keys/${foreman.id}`, { key: foreman.key, body: own })
    expect([widened.status, widened.json()]).toMatchObject([403, { code: 'FORBIDDEN' }])
    const less = { tasks: ['mail.eu'], lanes: ['default'], maxCapacity: 1 }
    expect((await create(less, 'worker', foreman.key)).status).toBe(201)
  })

  test('shows what its workers may run, and the audit shows what was changed', async () => {
    const key = await keyWith(MAIL)
    await narrow(key, { tasks: [] })
    const shown = await server.call('GET', `/keys/${key.id}`, { key: admin })
    const runs = { ...MAIL, tasks: [], pools: [], minRank: 0 }
    expect(shown.json()).toMatchObject({ runs })
    const { entries } = await server.app.access.readAudit({ target: `key ${key.id}` })
    expect(entries).toMatchObject([
      { action: 'key.change', before: { runs: { tasks: ['mail.*'] } }, after: { runs } },
      { action: 'key.create', after: { runs: { tasks: ['mail.*'] } } },
    ])
  })

  test('of a role that runs no workers names no tasks', async () => {
    expect((await create(MAIL, 'viewer')).json()).toMatchObject({
      code: 'INVALID_ARGUMENT',
      argument: 'runs',
    })
    expect((await create({ tasks: ['a b'], lanes: ['*'] })).status).toBe(400)
    expect((await create(undefined, 'viewer')).json()).toMatchObject({ runs: null })
  })
})
