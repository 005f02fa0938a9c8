import { beforeAll, describe, expect, test } from 'vitest'
import { SluiceClient } from '../../src/client/index.ts'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const gates = [new Gate(), new Gate()]
const echo = task({ name: 'echo', run: async (input: unknown) => input })
const slow = task({ name: 'slow', lane: 'interactive', run: async (gate: number) => gates[gate]!.pass() })
const database = useDatabase()
const server = useServer(database, { tasks: [echo, slow] })
let key = ''

beforeAll(async () => {
  key = await server.keyOf('operator', 'olga')
})

async function submit(body: object): Promise<string> {
  return (await server.call('POST', '/jobs', { key, body })).json<{ id: string }>().id
}

async function audited(action: string) {
  return database.sql<{
    actor: string
    target: string
    before: unknown
    after: unknown
    refused: string | null
  }>('select actor, target, before, after, refused from sluice.audit where action = $1 order by id', [action])
}

describe('lanes', () => {
  test('are listed with what they hold', async () => {
    const { lanes } = (await server.call('GET', '/admin/workers/lanes', { key })).json<{
      lanes: { name: string; slots: number | null }[]
    }>()
    expect(lanes.map(({ name, slots }) => [name, slots])).toEqual([
      ['default', null],
      ['interactive', 2],
      ['maintenance', 1],
      ['system', 1],
    ])
    const one = await server.call('GET', '/admin/workers/lanes/interactive', { key })
    expect(one.json()).toMatchObject({ name: 'interactive', tasks: ['slow'], utilisation: 0, enabled: true })
  })

  test('are changed in the words of the config file, with before and after in the audit', async () => {
    const answer = await server.call('PATCH', '/admin/workers/lanes/system', {
      key,
      body: { slots: 7, stale: '20s', enabled: false },
    })
    expect(answer.json()).toMatchObject({
      slots: 7,
      staleMs: 20_000,
      enabled: false,
      operatorSet: expect.arrayContaining(['slots', 'staleMs', 'enabled']),
      updatedBy: 'olga',
    })
    expect(await audited('lane.change')).toMatchObject([
      {
        actor: 'olga',
        target: 'lane system',
        before: { slots: 1, staleMs: 15_000, enabled: true },
        after: { slots: 7, staleMs: 20_000, enabled: false },
      },
    ])
  })

  test('take prefetch as a number or off, and answer with a number', async () => {
    const lane = '/admin/workers/lanes/interactive'
    const patch = (prefetch: unknown) => server.call('PATCH', lane, { key, body: { prefetch } })
    expect((await server.call('GET', lane, { key })).json()).toMatchObject({ prefetch: 1000 })
    expect((await patch('off')).json()).toMatchObject({ prefetch: 0, operatorSet: ['prefetch'] })
    expect((await patch(500)).json()).toMatchObject({ prefetch: 500 })
    for (const [value, rule] of [
      [1001, 'must be <= 1000'],
      [-1, 'must be >= 0'],
      [1.5, 'must be a whole number or a text'],
      ['many', 'must be a whole number from 0 to 1000, or off'],
      [null, 'must be a whole number or a text'],
    ] as const) {
      const answer = await patch(value)
      expect([answer.status, answer.json().detail]).toEqual([400, expect.stringContaining(rule)])
    }
    const reset = await server.call('POST', `${lane}/reset`, { key })
    expect(reset.json()).toMatchObject({ prefetch: 1000, operatorSet: [] })
    expect((await audited('lane.change')).at(-1)).toMatchObject({
      before: { prefetch: 0 },
      after: { prefetch: 500 },
    })
  })

  test('show what was changed, by whom and why, to callers with permission', async () => {
    const { lanes, ...changed } = { lanes: '/admin/workers/lanes', body: { slots: 4 } }
    const headers = { 'x-sluice-reason': 'month%20end' }
    await server.call('PATCH', `${lanes}/maintenance`, { key, ...changed, headers })
    await server.call('POST', `${lanes}/maintenance/reset`, { key })
    const client = new SluiceClient({ server: server.url, key: await server.keyOf('viewer') })
    const changes = await client.laneChanges('maintenance')
    expect(changes.map(({ action, by, reason }) => [action, by, reason])).toEqual([
      ['lane.reset', 'olga', null],
      ['lane.change', 'olga', 'month end'],
    ])
    expect(changes[1]).toMatchObject({
      at: expect.any(Date),
      before: { slots: 1 },
      after: { slots: 4 },
    })
    expect(await client.laneChanges('maintenance', { before: changes[0]!.id, limit: 1 })).toHaveLength(1)
    await expect(client.laneChanges('nowhere')).rejects.toMatchObject({ code: 'LANE_NOT_FOUND' })
  })

  test.each([
    ['nothing', {}, 400],
    ['a field that does not exist', { slot: 1 }, 400],
    ['a negative number', { slots: -1 }, 400],
    ['a stale that is too short', { stale: '5s' }, 400],
    ['a text that is not a duration', { poll: 'often' }, 400],
  ])('refuse %s', async (_, body, status) => {
    const answer = await server.call('PATCH', '/admin/workers/lanes/default', { key, body })
    expect(answer.status, answer.text).toBe(status)
  })

  test('get 404 if they do not exist', async () => {
    const answer = await server.call('PATCH', '/admin/workers/lanes/nowhere', { key, body: { slots: 1 } })
    expect([answer.status, answer.json().code]).toEqual([404, 'LANE_NOT_FOUND'])
  })
})

describe('jobs of any owner', () => {
  test('are cancelled and reprioritised by operators', async () => {
    const id = await submit({ task: 'echo', runAt: '1h' })
    const patch = await server.call('PATCH', `/admin/workers/jobs/${id}/priority`, {
      key,
      body: { priority: 9 },
    })
    expect([patch.status, patch.json()]).toEqual([200, { id, status: 'queued', priority: 9 }])
    const cancel = await server.call('POST', `/admin/workers/jobs/${id}/cancel`, { key })
    expect(cancel.json()).toEqual({ id, status: 'cancelled' })
    const again = await server.call('POST', `/admin/workers/jobs/${id}/cancel`, { key })
    expect([again.status, again.json().code]).toEqual([409, 'ILLEGAL_TRANSITION'])
    expect(await audited('job.cancel')).toMatchObject([
      { target: `job ${id}`, after: { status: 'cancelled' } },
      { target: `job ${id}`, refused: 'ILLEGAL_TRANSITION' },
    ])
  })
})

test('an operator says why a job is cancelled, in the body or the query, and nothing else', async () => {
  const cancel = async (query: string, body?: unknown) => {
    const id = await submit({ task: 'echo', runAt: '1h' })
    const answer = await server.call('POST', `/admin/workers/jobs/${id}/cancel${query}`, { key, body })
    const { status, error } = await server.app.getJob(id)
    if (status === 'queued') await server.app.cancel(id)
    return [answer.status, status, error]
  }
  expect(await cancel('', { reason: 'too large' })).toEqual([200, 'cancelled', 'cancelled: too large'])
  expect(await cancel('?reason=too%20late')).toEqual([200, 'cancelled', 'cancelled: too late'])
  expect(await cancel('', {})).toEqual([200, 'cancelled', 'cancelled: by olga'])
  expect(await cancel('', { why: 'x' })).toEqual([400, 'queued', null])
  expect(await cancel('?why=x')).toEqual([400, 'queued', null])
})

test('a body is refused where none is taken, and an empty one is none', async () => {
  const reset = (body: unknown) =>
    server.call('POST', '/admin/workers/lanes/interactive/reset', { key, body })
  for (const body of [undefined, null, {}]) expect((await reset(body)).status).toBe(200)
  for (const body of [{ slots: 3 }, [1], 'x', 0]) {
    const answer = await reset(body)
    expect([answer.status, answer.json()]).toEqual([
      400,
      expect.objectContaining({
        code: 'INVALID_ARGUMENT',
        detail: expect.stringContaining('does not accept a body'),
      }),
    ])
  }
})

describe('workers', () => {
  test('that do not exist cannot be drained', async () => {
    for (const what of ['drain', 'undrain', 'stop']) {
      const answer = await server.call('POST', `/admin/workers/nobody/${what}`, { key })
      expect([answer.status, answer.json().code]).toEqual([404, 'WORKER_NOT_FOUND'])
    }
  })

  test('show what they run; drained they take nothing new, asked to stop they leave when it has ended', async () => {
    let asked = 0
    await server.app.work({ name: 'w1', capacity: 1, onStopAsked: () => asked++ })
    const first = await submit({ task: 'slow', input: 0 })
    await gates[0]!.arrived()
    const status = (await server.call('GET', '/admin/workers/status', { key })).json<{
      workers: { name: string; capacity: number; jobs: object[] }[]
      lanes: { name: string; running: number }[]
    }>()
    expect(status.workers).toMatchObject([
      {
        name: 'w1',
        capacity: 1,
        running: 1,
        draining: false,
        stopping: false,
        silent: false,
        jobs: [{ id: first, task: 'slow', slot: 1 }],
      },
    ])
    expect(status.lanes.find(({ name }) => name === 'interactive')).toMatchObject({ running: 1 })

    expect((await server.call('POST', '/admin/workers/w1/drain', { key })).json()).toEqual({ workers: 1 })
    const waiting = await submit({ task: 'echo' })
    const reason = async () => {
      const answer = await server.call('GET', '/admin/workers/status', { key })
      return answer.json<{ queues: { reason: string | null }[] }>().queues[0]?.reason?.includes('draining')
    }
    await until(reason, 'the queue to be sampled')
    expect((await server.call('POST', '/admin/workers/w1/undrain', { key })).json()).toEqual({ workers: 1 })
    gates[0]!.open()
    await server.app.job(waiting).result()

    const second = await submit({ task: 'slow', input: 1 })
    await gates[1]!.arrived()
    expect((await server.call('POST', '/admin/workers/w1/stop', { key })).json()).toEqual({ workers: 1 })
    await until(() => asked === 1, 'the worker to hear of it')
    gates[1]!.open()
    await until(async () => (await server.app.listWorkers()).length === 0, 'the worker to leave')
    expect((await server.app.getJob(second)).status).toBe('completed')
    expect((await audited('worker.stop')).at(-1)).toMatchObject({
      actor: 'olga',
      target: 'worker w1',
      refused: null,
    })
  })
})
