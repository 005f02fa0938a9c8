import pino from 'pino'
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { readNow } from '../../src/engine/views/now.ts'
import { remoteWorker, task } from '../../src/index.ts'
import { ServerConnections } from '../../src/server/limits/connections.ts'
import { refusalTallies } from '../../src/server/limits/refusal-tally.ts'
import { RemoteWorker } from '../../src/server/remote/remote-worker.ts'
import { RemoteWorkers } from '../../src/server/remote/remote-workers.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { startHttpProxy } from '../support/http-proxy.ts'
import { EVERYTHING, startTestServer, useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'
import { DECISIONS } from './route-decisions.ts'

const echo = task({ name: 'echo', lane: 'wide', run: async (input: unknown) => input })
const narrow = task({ name: 'narrow', lane: 'narrow', run: async (input: unknown) => input })
const database = useDatabase()
// Nobody sends heartbeats for workers that are played by hand.
const options = { tasks: [echo, narrow], stale: '10m', lanes: { wide: { slots: 50 }, narrow: { slots: 1 } } }
const server = useServer(database, options)
let key = ''
let other = ''

beforeAll(async () => {
  key = await server.keyOf('worker')
  other = await server.keyOf('worker')
})

interface Job {
  readonly id: string
  readonly attempt: number
  readonly task: string
  readonly input: string
}
interface Cycled {
  readonly jobs: Job[]
  readonly lost?: string[]
  readonly refused?: { id: string; attempt: number; code: string }[]
  readonly cancel?: string[]
  readonly draining?: boolean
}

async function register(body: object = {}, by = key): Promise<string> {
  const answer = await server.call('POST', '/workers', {
    key: by,
    body: { name: 'by-hand', capacity: 10, cores: 2, tasks: [{ name: 'echo' }, { name: 'narrow' }], ...body },
  })
  expect(answer.status).toBe(201)
  const { id } = answer.json<{ id: string }>()
  onTestFinished(async () => {
    // Whatever a test leaves running is handed back.
    const { jobs } = await cycle(id, { free: 0 }, server, by)
    const ended = jobs.map((job) => ({ id: job.id, attempt: job.attempt, ending: 'cancelled', error: 'x' }))
    await cycle(id, { ended, free: 0 }, server, by)
    await server.call('POST', `/workers/${id}/close`, { key: by, body: {} })
  })
  return id
}

async function cycle(id: string, body: object, at = server, by = key): Promise<Cycled> {
  const answer = await at.call('POST', `/workers/${id}/cycle`, {
    key: by,
    body: { running: [], free: 1, ...body },
  })
  expect(answer.status, answer.text).toBe(200)
  return answer.json<Cycled>()
}

async function submit(input: unknown, name = 'echo'): Promise<string> {
  return (await server.app.submit(name, input)).id
}

const held = ({ id, attempt }: Job) => ({ id, attempt })

describe('the protocol', () => {
  test('registering tells the heartbeat and the stale times of lanes', async () => {
    const answer = await server.call('POST', '/workers', {
      key,
      body: { name: 'w', capacity: 1, cores: 1, tasks: [{ name: 'echo' }] },
    })
    expect(answer.json()).toMatchObject({ heartbeatMs: 5000, staleMs: { wide: 600_000, default: 600_000 } })
    const { id } = answer.json<{ id: string }>()
    expect((await server.call('POST', `/workers/${id}/close`, { key, body: {} })).status).toBe(200)
    expect((await server.call('POST', `/workers/${id}/heartbeat`, { key })).status).toBe(404)
  })

  test('a heartbeat may say that the main loop of the worker is blocked, and the next one that it turns', async () => {
    const id = await register()
    const job = await submit({ n: 1 })
    const { jobs } = await cycle(id, {})
    const findings = async () =>
      (await readNow(server.app.services.calls)).findings.filter(({ rule }) => rule === 'worker_blocked')
    const path = `/workers/${id}/heartbeat`
    const blocked = { forMs: 7300, tasks: ['echo'] }
    expect((await server.call('POST', path, { key, body: { blocked } })).status).toBe(200)
    expect(await findings()).toMatchObject([
      { text: expect.stringContaining(`It is running job ${job} (echo)`) },
    ])
    expect((await server.call('POST', path, { key })).status).toBe(200)
    expect(await findings()).toEqual([])
    await cycle(id, { ended: [{ ...held(jobs[0]!), ending: 'completed', result: 'null' }], free: 0 })
  })

  test('a job is given, run and ended', async () => {
    const id = await register()
    const job = await submit({ n: 1 })
    const { jobs } = await cycle(id, {})
    expect(jobs).toMatchObject([{ id: job, attempt: 1, task: 'echo', lane: 'wide', input: '{"n": 1}' }])
    const ended = [{ ...held(jobs[0]!), ending: 'completed', result: '{"big":9007199254740991}' }]
    expect(await cycle(id, { ended, free: 0 })).toEqual({ jobs: [] })
    const [row] = await database.sql<{ state: string; big: string }>(
      `select state, result ->> 'big' as big from sluice.jobs where id = $1`,
      [job],
    )
    expect(row).toEqual({ state: 'completed', big: '9007199254740991' })
  })

  test('gives a worker as many jobs of lane default as its capacity, not as it has cores', async () => {
    const id = await register({ capacity: 5, cores: 1, tasks: [{ name: 'plainly' }] })
    for (let n = 0; n < 6; n++) await submit(n, 'plainly')
    const { jobs } = await cycle(id, { free: 6 })
    expect(jobs.map(({ input }) => input)).toEqual(['0', '1', '2', '3', '4'])
  })

  test('a claim whose answer was lost is given again, and burns no attempt', async () => {
    const id = await register()
    const job = await submit(1)
    expect((await cycle(id, {})).jobs).toHaveLength(1)
    // The worker never heard of it: it names nothing.
    expect((await cycle(id, { waitMs: 1000 })).jobs).toMatchObject([{ id: job, attempt: 1 }])
    // What it has not heard of counts against what it asks for.
    const next = await submit(2)
    expect((await cycle(id, { free: 1 })).jobs).toMatchObject([{ id: job, attempt: 1 }])
    const both = await cycle(id, { running: [{ id: job, attempt: 1 }], free: 1 })
    expect(both.jobs).toMatchObject([{ id: next, attempt: 1 }])
  })

  test('an ending is recorded once, however often it is sent', async () => {
    const id = await register()
    const job = await submit(1)
    const { jobs } = await cycle(id, {})
    const ended = [{ ...held(jobs[0]!), ending: 'completed', result: '1' }]
    expect((await cycle(id, { ended })).refused).toBeUndefined()
    expect(await cycle(id, { ended: [{ ...ended[0], result: '2' }] })).toMatchObject({
      refused: [{ id: job, attempt: 1, code: 'LEASE_LOST' }],
    })
    expect((await server.app.getJob(job)).result).toBe(1)
  })

  test('what is refused is logged and counted, once, and what the worker recorded itself is not', async () => {
    const viewer = await server.keyOf('viewer')
    const late = async () =>
      (await server.call('GET', '/admin/recovery?kind=late_write', { key: viewer })).json<{
        events: { worker: string; jobs: number; jobIds: string[] }[]
        lastHour: { late_write: number }
      }>()
    const logged = () => server.log().split('about jobs that it does not hold').length - 1
    const [id, name] = [await register({ name: 'too-late' }), 'too-late']
    const own = await submit(1)
    const { jobs } = await cycle(id, {})
    const ended = jobs.map((job) => ({ ...held(job), ending: 'completed' }))
    await cycle(id, { ended, free: 0 })
    const before = [(await late()).lastHour.late_write, logged()] as const
    // Its own again, as after a lost answer; then a foreign one, twice; then that one as if it still ran.
    expect((await cycle(id, { ended, free: 0 })).refused).toMatchObject([{ id: own }])
    const foreign = { id: await submit(2), attempt: 1 }
    const forged = [{ ...foreign, ending: 'completed' }]
    for (let times = 0; times < 2; times++)
      expect((await cycle(id, { ended: forged, free: 0 })).refused).toMatchObject([{ id: foreign.id }])
    await until(async () => logged() > before[1], 'the refusal to be logged')
    expect((await cycle(id, { running: [foreign], free: 0 })).lost).toEqual([foreign.id])
    // It is declared dead: whatever it still says is refused, and told.
    await database.sql('update sluice.workers set ended_at = now() where id = $1', [id])
    const other = { id: foreign.id, attempt: 2 }
    const gone = await server.call('POST', `/workers/${id}/cycle`, {
      key,
      body: { ended: forged, running: [other], free: 0, resync: true },
    })
    expect([gone.status, gone.json().code]).toEqual([404, 'WORKER_NOT_FOUND'])
    await until(async () => logged() > before[1] + 1, 'the dead one to be logged')
    const { events, lastHour } = await late()
    expect(lastHour.late_write - before[0]).toBe(2)
    expect(logged() - before[1]).toBe(2)
    expect(events.filter((each) => each.worker === name)).toMatchObject([
      { jobs: 1, jobIds: [foreign.id], detail: 'it was declared dead or has left, and came back' },
      { jobs: 1, jobIds: [foreign.id], detail: 'it does not hold them, or no longer' },
    ])
    await server.app.cancel(foreign.id)
    await database.sql('update sluice.workers set ended_at = null where id = $1', [id])
  })

  test('another server takes a worker over at once, and the first one takes it back', async () => {
    const second = await startTestServer(database.url, options)
    onTestFinished(() => second.stop())
    const id = await register()
    const [a, b, c] = [await submit(1), await submit(2), await submit(3)]
    const first = (await cycle(id, {})).jobs
    expect(first).toMatchObject([{ id: a }])
    const more = await cycle(id, { running: first.map(held) }, second)
    expect(more.jobs).toMatchObject([{ id: b }])
    expect(more.lost).toBeUndefined()
    const last = await cycle(id, { running: [...first, ...more.jobs].map(held) })
    expect(last.jobs).toMatchObject([{ id: c }])
    const all = [...first, ...more.jobs, ...last.jobs]
    const ended = all.map((job) => ({ ...held(job), ending: 'completed' }))
    expect(await cycle(id, { ended, free: 0 }, second)).toEqual({ jobs: [] })
    for (const job of [a, b, c]) expect((await server.app.getJob(job)).attempt).toBe(1)
  })

  test('a worker without devices gets the names of budgets with devices, and its model events are accepted', async () => {
    const id = await register()
    const devices = await server.call('POST', `/workers/${id}/devices`, { key, body: { devices: [] } })
    expect([devices.status, devices.json()]).toEqual([200, { budgets: [] }])
    const news = {
      loaded: [{ model: 'm', devices: ['GPU-x'], loadMs: 5 }],
      unloaded: [{ model: 'n', device: 'GPU-x' }],
    }
    expect(await cycle(id, { news, free: 0 })).toMatchObject({ jobs: [], newsTaken: true })
  })

  test.each([
    { devices: [{ budget: 'vram', key: '', total: 1 }] },
    { devices: [{ budget: 'vram', key: 'GPU-x', total: -1 }] },
    { devices: [{ budget: 'vram', key: 'GPU-x', total: '24GB' }] },
    { devices: [{ budget: 'vram', key: 'GPU-x', total: 1, spare: 1 }] },
    {},
  ])('a report that is none is refused: %j', async (body) => {
    const id = await register()
    const answer = await server.call('POST', `/workers/${id}/devices`, { key, body })
    expect([answer.status, answer.json().code]).toEqual([400, 'INVALID_ARGUMENT'])
  })

  test.each([
    [{ uses: { vram: -1 } }, 'uses of task odd.vram: must be a number of at least 0'],
    [{ uses: { vram: 'much' } }, 'uses of task odd.vram: must be'],
    [{ perJob: { '1st': 1 } }, 'perJob of task odd: the name of a budget must be'],
    [{ perJob: { vram: 1 } }, 'task odd: perJob requires uses, because perJob alone is not counted'],
    [{ model: 'a\u0000b' }, 'model of task odd: must be the name of a model'],
  ])('a task that cannot draw so is refused: %j', async (odd, problem) => {
    const body = { name: 'x', capacity: 1, cores: 1, tasks: [{ name: 'odd', ...odd }] }
    const answer = await server.call('POST', '/workers', { key, body })
    expect([answer.status, answer.json().detail]).toEqual([400, expect.stringContaining(problem)])
  })

  test('a new task that draws from a budget nobody has declared is refused', async () => {
    const body = { name: 'x', capacity: 1, cores: 1, tasks: [{ name: 'rfar', uses: { tokens: 3 } }] }
    const answer = await server.call('POST', '/workers', { key, body })
    expect([answer.status, answer.json()]).toEqual([
      404,
      expect.objectContaining({
        code: 'BUDGET_NOT_FOUND',
        detail: expect.stringContaining('task rfar uses budget tokens, which is not declared'),
        name: 'tokens',
        task: 'rfar',
      }),
    ])
    expect(await database.sql(`select name from sluice.tasks where name = 'rfar'`)).toEqual([])
  })

  test('a worker hears in what its tasks are known otherwise, as far as it says something of them', async () => {
    const tasks = [{ name: 'echo', lane: 'narrow', priority: 9, losses: 3 }, { name: 'narrow' }]
    const answer = await server.call('POST', '/workers', {
      key,
      body: { name: 'w', capacity: 1, cores: 1, tasks },
    })
    expect(answer.json()).toMatchObject({ differs: [{ task: 'echo', fields: ['lane', 'priority'] }] })
    await server.call('POST', `/workers/${answer.json<{ id: string }>().id}/close`, { key, body: {} })
  })

  test('a worker hears that a task keeps its approval where it says approval: false, and nothing where it says nothing', async () => {
    const registered = async (approval?: boolean) => {
      const tasks = [{ name: 'payout', ...(approval !== undefined && { approval }) }]
      const body = { name: 'w', capacity: 1, cores: 1, tasks }
      const answer = (await server.call('POST', '/workers', { key, body })).json<{
        id: string
        differs?: unknown
      }>()
      await server.call('POST', `/workers/${answer.id}/close`, { key, body: {} })
      return answer.differs ?? []
    }
    expect(await registered(true)).toEqual([])
    expect(await registered(false)).toEqual([{ task: 'payout', fields: ['approval'] }])
    expect(await registered()).toEqual([])
    const job = await server.app.submit('payout', 1)
    expect(await server.app.getJob(job.id)).toMatchObject({ status: 'awaiting_approval' })
    await server.app.cancel(job.id)
  })

  test('a remote worker writes into its log what the server does not take from it', async () => {
    const lines: string[] = []
    const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) })
    const loaded = { file: '/w/sluice.yaml', folder: '/w', tasks: [], workflows: [], locate: () => undefined }
    const config = { budgets: { tokens: 3 } }
    const worker = await remoteWorker({
      server: server.url,
      key,
      log,
      tasks: [task({ name: 'echo', priority: 7, run: () => 1 })],
      config: { ...loaded, config } as never,
    })
    await worker.close()
    expect(lines.join('')).toContain(
      'the server has a different priority for task echo, which takes precedence',
    )
    expect(lines.join('')).toContain('budgets of this file have no effect in a remote worker')
  })

  test('asks a worker to stop jobs that it no longer holds', async () => {
    const id = await register()
    const job = await submit(1)
    const { jobs } = await cycle(id, {})
    await database.sql(
      `with back as (update sluice.jobs set state = 'completed', finished_at = now() where id = $1) delete from sluice.holdings where worker_id = $2`,
      [job, id],
    )
    expect(await cycle(id, { running: jobs.map(held), resync: true })).toMatchObject({ lost: [job] })
  })

  test('a limit holds, and slots come back to others when a worker has been idle for a moment', async () => {
    const [first, second] = [await register(), await register()]
    await submit(1, 'narrow')
    await submit(2, 'narrow')
    const { jobs } = await cycle(first, { free: 5 })
    expect(jobs).toHaveLength(1)
    expect((await cycle(second, { free: 5 })).jobs).toHaveLength(0)
    await cycle(first, { ended: jobs.map((job) => ({ ...held(job), ending: 'completed' })), free: 0 })
    expect((await cycle(second, { free: 5, waitMs: 20_000 })).jobs).toHaveLength(1)
  })

  test('a result that is no JSON fails its job and no other', async () => {
    const id = await register()
    const [bad, nul, good] = [await submit(1), await submit(2), await submit(3)]
    const { jobs } = await cycle(id, { free: 3 })
    const texts = new Map([
      [bad, '1},"x":{'],
      [nul, '"\\u0000"'],
      [good, '3'],
    ])
    const ended = jobs.map((job) => ({ ...held(job), ending: 'completed', result: texts.get(job.id) }))
    expect(await cycle(id, { ended, free: 0 })).toEqual({ jobs: [] })
    expect(await server.app.getJob(bad)).toMatchObject({
      status: 'failed',
      error: /^the result is no JSON/,
    })
    expect(await server.app.getJob(nul)).toMatchObject({
      status: 'failed',
      error: /^the outcome cannot/,
    })
    expect(await server.app.getJob(good)).toMatchObject({ status: 'completed', result: 3 })
  })

  test('a worker that says it is broken is shown so, with why, until somebody brings it back', async () => {
    const id = await register({ name: 'poor' })
    const shown = async () => (await server.app.listWorkers()).find((worker) => worker.id === id)
    const say = (body?: object) => server.call('POST', `/workers/${id}/broken`, { key, body })
    expect((await say({ why: 'no room on /scratch' })).status).toBe(200)
    expect(await shown()).toMatchObject({ draining: true, broken: 'no room on /scratch' })
    expect((await say()).status).toBe(200)
    expect(await shown()).toMatchObject({ broken: 'it did not say why' })
    await server.app.drainWorker('poor', false)
    expect(await shown()).toMatchObject({ draining: false, broken: null })
  })
})

describe('waiting', () => {
  test('ends as soon as there is a job', async () => {
    const id = await register()
    const waiting = cycle(id, { waitMs: 20_000 })
    const job = await submit(1)
    expect((await waiting).jobs).toMatchObject([{ id: job }])
  })

  test('ends with nothing when the time is up, and when a newer request of the worker comes', async () => {
    const id = await register()
    expect(await cycle(id, { waitMs: 10 })).toEqual({ jobs: [] })
    let answered = false
    const older = cycle(id, { waitMs: 30_000 }).finally(() => {
      answered = true
    })
    // Two that are sent at once may arrive the other way round; the next one is newer in any case.
    const overtaken = async () => {
      expect(await cycle(id, { waitMs: 10 })).toEqual({ jobs: [] })
      return answered
    }
    await until(overtaken, 'the older one to be answered')
    expect(await older).toEqual({ jobs: [] })
  })

  test('brings cancels and drains at once', async () => {
    const id = await register({ name: 'to-be-drained' })
    const job = await submit(1)
    const { jobs } = await cycle(id, {})
    const cancelled = cycle(id, { running: jobs.map(held), free: 0, waitMs: 20_000 })
    await server.app.cancel(job)
    expect((await cancelled).cancel).toEqual([job])
    const ended = [{ ...held(jobs[0]!), ending: 'cancelled', error: 'cancelled: on request' }]
    await cycle(id, { ended, free: 0 })
    const drained = cycle(id, { free: 1, waitMs: 20_000 })
    await server.app.drainWorker('to-be-drained')
    expect((await drained).draining).toBe(true)
  })
})

describe('a key', () => {
  test('may not use workers of another key, whatever the request', async () => {
    const id = await register()
    const job = await submit(1)
    const { jobs } = await cycle(id, {})
    const lease = { id: job, attempt: 1 }
    const at = new Date().toISOString()
    const requests = {
      cycle: { running: [lease], free: 1 },
      heartbeat: undefined,
      'hand-back': { jobs: [job], seen: '1.1' },
      logs: { lines: [{ ...lease, at, level: 'info', line: 'x' }] },
      progress: { notes: [{ ...lease, progress: 1 }] },
      'steps/load': { ...lease, name: 's' },
      'steps/save': { ...lease, name: 's', result: '1' },
      'checkpoint/load': lease,
      'checkpoint/save': { ...lease, value: '1' },
      devices: { devices: [] },
      processes: { held: 0 },
      withdraw: { task: 'echo', why: 'it does not start', retryMs: 60_000 },
      restore: { task: 'echo' },
      broken: undefined,
      close: {},
    }
    // A new route has to be here too.
    const routes = Object.keys(DECISIONS).filter((route) => route.includes('/workers/:id/'))
    expect(Object.keys(requests).map((path) => `POST /api/v1/workers/:id/${path}`)).toEqual(
      expect.arrayContaining(routes),
    )
    for (const [path, body] of Object.entries(requests)) {
      const answer = await server.call('POST', `/workers/${id}/${path}`, { key: other, body })
      expect([path, answer.status, answer.json().code]).toEqual([path, 403, 'FORBIDDEN'])
    }
    expect(jobs).toHaveLength(1)
  })

  test('is not refused because another one asks for the same worker at the same moment', async () => {
    const [mine, foreign] = [await register(), await register({}, other)]
    const keys = await database.sql<{ key_id: string }>(
      'select key_id from sluice.workers where id = any ($1) order by id',
      [[mine, foreign]],
    )
    const [own, theirs] = keys.map((each) => each.key_id) as [string, string]
    const { app } = server
    const { services } = app
    const log = pino({ level: 'silent' })
    const connections = new ServerConnections(services.db.url, services.heartbeatMs)
    onTestFinished(() => connections.close())
    // One that knows no worker yet: both wait for the same look.
    const tallies = refusalTallies(services.calls, log)
    const workers = new RemoteWorkers({
      app,
      services,
      connections,
      log,
      ...tallies,
      version: '',
      draining: () => false,
    })
    onTestFinished(() => workers.stop())
    const get = (keyId: string) => workers.get(mine, { keyId, runs: EVERYTHING })
    const [refused, found] = await Promise.allSettled([get(theirs), get(own)])
    expect(refused).toMatchObject({ status: 'rejected', reason: { code: 'FORBIDDEN' } })
    expect(found).toMatchObject({ status: 'fulfilled', value: { id: mine } })
  })

  test('may not use a worker that speaks to the database itself', async () => {
    await server.app.work({ name: 'direct', tasks: ['narrow'] })
    onTestFinished(() => server.app.stopWorking())
    const [direct] = await database.sql<{ id: string }>(
      `select id from sluice.workers where name = 'direct' and ended_at is null`,
    )
    const answer = await server.call('POST', `/workers/${direct!.id}/heartbeat`, { key })
    expect(answer.status).toBe(403)
  })

  test('touches only jobs that its worker holds', async () => {
    const [mine, foreign] = [await register(), await register({}, other)]
    const job = await submit(1)
    // The one that came earlier is given jobs first, for a moment.
    const [taken] = (await cycle(foreign, { waitMs: 5000 }, server, other)).jobs
    const lease = held(taken!)
    const stolen = await cycle(mine, {
      ended: [{ ...lease, ending: 'completed', result: '"mine"' }],
      free: 0,
    })
    expect(stolen.refused).toMatchObject([{ id: job, code: 'LEASE_LOST' }])
    const post = (path: string, body: object) =>
      server.call('POST', `/workers/${mine}/${path}`, { key, body })
    const lines = [{ ...lease, at: new Date().toISOString(), level: 'info', line: 'forged' }]
    expect((await post('logs', { lines })).json()).toEqual({ refused: [job] })
    expect((await post('progress', { notes: [{ ...lease, progress: 1 }] })).status).toBe(200)
    for (const [path, body] of [
      ['steps/load', { ...lease, name: 's' }],
      ['steps/save', { ...lease, name: 's', result: '1' }],
      ['checkpoint/load', lease],
      ['checkpoint/save', { ...lease, value: '1' }],
    ] as const) {
      const refused = await post(path, body)
      expect([path, refused.status, refused.json().code]).toEqual([path, 409, 'LEASE_LOST'])
    }
    expect(await server.app.getJob(job)).toMatchObject({ status: 'running', result: null, progress: null })
    expect(await server.app.readLogs(job)).toEqual([])
  })

  test('cannot change what is known of a task', async () => {
    const [before] = await database.sql(`select * from sluice.tasks where name = 'echo'`)
    await register({
      tasks: [{ name: 'echo', lane: 'narrow', approval: true, priority: 9 }, { name: 'brand-new' }],
    })
    expect(await database.sql(`select * from sluice.tasks where name = 'echo'`)).toEqual([before])
    expect(await database.sql(`select lane, approval from sluice.tasks where name = 'brand-new'`)).toEqual([
      { lane: 'default', approval: false },
    ])
    const refused = await server.call('POST', '/workers', {
      key,
      body: { name: 'w', capacity: 1, cores: 1, tasks: [{ name: 'lost', lane: 'nowhere' }] },
    })
    expect([refused.status, refused.json().code]).toEqual([404, 'LANE_NOT_FOUND'])
  })
})

test('one new job makes a few of 500 idle workers look, not all of them', { timeout: 120_000 }, async () => {
  const id = await register({ tasks: [{ name: 'echo' }] })
  // Registered in one go: 500 requests would be about something else.
  const others = await database.sql<{ id: string }>(
    `insert into sluice.workers (name, host, pid, version, capacity, cores, tasks, key_id)
     select w.name, w.host, w.pid, w.version, w.capacity, w.cores, w.tasks, w.key_id
       from sluice.workers w, generate_series(1, 499) where w.id = $1 returning id`,
    [id],
  )
  onTestFinished(async () => {
    await database.sql(`update sluice.workers set ended_at = now() where id = any ($1)`, [
      others.map((each) => each.id),
    ])
    await database.sql(`delete from sluice.holdings where worker_id = any ($1)`, [
      others.map((each) => each.id),
    ])
  })
  const all = [id, ...others.map((each) => each.id)]
  let looks = 0
  const { look } = RemoteWorker.prototype
  const spy = vi.spyOn(RemoteWorker.prototype, 'look').mockImplementation(function (
    this: RemoteWorker,
    request,
  ) {
    looks++
    return look.call(this, request)
  })
  onTestFinished(() => spy.mockRestore())
  const hangUp = new AbortController()
  const came = performance.now()
  const polls = all.map(async (each) => {
    const answer = await fetch(`${server.url}/api/v1/workers/${each}/cycle`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ running: [], free: 1, waitMs: 30_000 }),
      signal: hangUp.signal,
    })
    return (await answer.json()) as Cycled
  })
  onTestFinished(async () => {
    hangUp.abort()
    await Promise.allSettled(polls)
  })
  const known = async () =>
    (
      await database.sql<{ n: number }>(
        `select count(distinct worker_id)::integer as n from sluice.holdings where worker_id = any ($1)`,
        [all],
      )
    )[0]!.n
  await until(async () => (await known()) === 500, 'all of them to wait', 60_000)
  // Those that come within 20 ms are looked for together; on a slow machine their coming takes longer.
  expect(looks, 'those that come together are looked for together').toBeLessThan(
    100 + (performance.now() - came) / 20,
  )
  const before = looks
  const job = await submit('for one of them')
  expect((await Promise.race(polls)).jobs).toMatchObject([{ id: job }])
  // One finds the job, the next that there is no more; a few times, since a hint may come before what it announces. Those
  // that came to wait after the hint look too.
  expect(looks - before).toBeLessThan(60)
})

test('tells a remote worker whose file names an unknown lane where to declare it', async () => {
  const night = task({ name: 'at-night', lane: 'night', run: () => 1 })
  await expect(remoteWorker({ server: server.url, key, tasks: [night] })).rejects.toMatchObject({
    code: 'LANE_NOT_FOUND',
    message: expect.stringContaining('night'),
    details: { hint: expect.stringContaining('declare the lane in the config of the server') },
  })
})

test('the library works through a server without a database of its own', async () => {
  const done = new Gate()
  const greet = task({
    name: 'greet',
    run: async (name: string, ctx) => {
      ctx.log.info('greeting', name)
      ctx.progress(0.5, 'half')
      const step = await ctx.step('once', () => `Hello, ${name}!`)
      await ctx.checkpoint.set({ step })
      await done.pass(ctx.job.id)
      return [step, await ctx.checkpoint.get()]
    },
  })
  const worker = await remoteWorker({ server: server.url, key, tasks: [greet], name: 'greeter', capacity: 2 })
  onTestFinished(() => worker.close())
  const job = await server.app.submit('greet', 'Ada')
  await done.arrived(1)
  expect(worker.running).toBe(1)
  done.open()
  expect(await job.result()).toEqual(['Hello, Ada!', { step: 'Hello, Ada!' }])
  expect((await server.app.readLogs(job.id)).map(({ line }) => line)).toEqual(['greeting Ada'])
  await worker.close()
  expect(server.log()).not.toContain(key)
})

test('what the server has no room for is sent again after the time it names, and no job fails for it', async () => {
  const proxy = await startHttpProxy(server.url)
  onTestFinished(() => proxy.close())
  const refused = new Set<string>()
  proxy.decide = (path) => {
    const [what] = /steps\/\w+|checkpoint\/\w+|logs|progress/.exec(path) ?? []
    if (what === undefined || refused.has(what)) return 'pass'
    refused.add(what)
    return 'too many'
  }
  const patient = task({
    name: 'patient',
    retry: { attempts: 1 },
    run: async (input: string, ctx) => {
      ctx.log.info('once')
      ctx.progress(0.5, 'half')
      await ctx.checkpoint.set(await ctx.step('once', () => input))
      return ctx.checkpoint.get()
    },
  })
  const worker = await remoteWorker({
    server: proxy.url,
    key,
    tasks: [patient],
    name: 'patient',
    capacity: 1,
  })
  onTestFinished(() => worker.close())
  const job = await server.app.submit('patient', 'kept')
  expect(await job.result()).toBe('kept')
  await worker.close()
  expect((await server.app.readLogs(job.id)).map(({ line }) => line)).toEqual(['once'])
  expect([...refused]).toEqual(
    expect.arrayContaining(['steps/load', 'steps/save', 'checkpoint/save', 'logs']),
  )
  const { attempt, submittedAt, finishedAt } = await server.app.getJob(job.id)
  expect(attempt).toBe(1)
  // Three of them came one after another, each a second later.
  expect(Number(finishedAt) - Number(submittedAt)).toBeGreaterThanOrEqual(3000)
})

test.each([
  [{ server: 'ftp://x', key: 'slk_x' }, 'INVALID_ARGUMENT', 'server: use an address'],
  [{ server: 'http://u:p@x', key: 'slk_x' }, 'INVALID_ARGUMENT', 'server: the address must not contain'],
  [{ server: 'http://127.0.0.1:4', key: 'slk_secret' }, 'SERVER_UNAVAILABLE', 'ECONNREFUSED'],
  [{ server: '', key: 'slk_secret' }, 'INVALID_ARGUMENT', 'SLUICE_SERVER'],
])('a worker for %j is refused with %s, and the key is not repeated', async (where, code, text) => {
  const refused = await remoteWorker({ ...where, tasks: [echo] }).catch((error: unknown) => error)
  expect(refused).toMatchObject({ code, message: expect.stringContaining(text) })
  expect(JSON.stringify(refused) + String(refused)).not.toContain('secret')
})

test('a worker sends one cycle at a time, also for a job that ends at once after it was waited for', async () => {
  const proxy = await startHttpProxy(server.url)
  onTestFinished(() => proxy.close())
  /** Cycles that wait for nothing, by how many endings they report. */
  let reports: number[] = []
  let isWaiting = false
  proxy.decide = (path, body) => {
    if (path.endsWith('/cycle')) {
      const { waitMs, ended = [] } = JSON.parse(body) as { waitMs?: number; ended?: unknown[] }
      if (waitMs === undefined) reports.push(ended.length)
      isWaiting = waitMs !== undefined
    }
    return 'pass'
  }
  const runs: number[] = []
  const quick = task({ name: 'quick', run: (n: number) => void runs.push(n) })
  const worker = await remoteWorker({ server: proxy.url, key, tasks: [quick], name: 'quick', capacity: 2 })
  onTestFinished(() => worker.close())
  // It takes jobs from its first heartbeat on, and asks for them then.
  await (await server.app.submit('quick', 0)).result()
  for (let n = 1; n < 20; n++) {
    await until(() => isWaiting, 'the worker to wait for jobs')
    reports = []
    await (await server.app.submit('quick', n)).result()
    await until(() => isWaiting, 'the worker to wait again')
    expect(reports).toEqual([1])
  }
  expect(runs).toEqual(Array.from({ length: 20 }, (_, n) => n))
})
