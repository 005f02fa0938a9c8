import { beforeAll, describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'

// What a worker that errs or lies may send, and what must stay readable for everybody else afterwards.
const echo = task({ name: 'echo', run: async (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, { tasks: [echo], stale: '10m', budgets: { vram: { gpu0: '8GB' } } })
let key = ''
let admin = ''

beforeAll(async () => {
  key = await server.keyOf('worker')
  admin = await server.keyOf('platform_admin')
})

const registering = (body: object) =>
  server.call('POST', '/workers', {
    key,
    body: { name: 'by-hand', capacity: 10, cores: 2, tasks: [{ name: 'echo' }], ...body },
  })

const told = async (path: string, body: object) => {
  const { id } = (await registering({})).json<{ id: string }>()
  return server.call('POST', `/workers/${id}/${path}`, { key, body })
}

describe('deadlines', () => {
  test('a task with a deadline of more than 100 years is refused, and the list of jobs stays readable', async () => {
    for (const deadlineMs of [Number.MAX_SAFE_INTEGER, 36_500 * 86_400_000 + 1]) {
      const answer = await registering({ tasks: [{ name: 'late', deadlineMs }] })
      expect(answer.status, answer.text).toBe(400)
    }
    const longest = { name: 'late', deadlineMs: 36_500 * 86_400_000 }
    expect((await registering({ tasks: [longest] })).status).toBe(201)
    const submitted = await server.call('POST', '/jobs', { key: admin, body: { task: 'late', input: 1 } })
    expect(submitted.status, submitted.text).toBe(202)
    const listed = await server.call('GET', '/jobs', { key: admin })
    expect(listed.status, listed.text).toBe(200)
  })

  test('the table of tasks rejects such a deadline from any writer', async () => {
    await expect(
      database.sql(`update sluice.tasks set deadline_ms = 3153600000001 where name = 'late'`),
    ).rejects.toThrow(/tasks_deadline_ms_check/)
  })
})

describe('budgets', () => {
  test('a load of more than a day and a quantum of more than a million are refused', async () => {
    const loaded = (loadMs: number) =>
      told('cycle', { running: [], free: 0, news: { loaded: [{ model: 'm', devices: ['GPU-a'], loadMs }] } })
    expect((await loaded(1e18)).status).toBe(400)
    expect((await loaded(86_400_001)).status).toBe(400)
    expect((await loaded(86_400_000)).status).toBe(200)
    const quantum = (value: number) =>
      server.call('PATCH', '/admin/budgets/vram', { key: admin, body: { quantum: value } })
    expect((await quantum(1e15)).status).toBe(400)
    expect((await quantum(1_000_000)).status).toBe(200)
    await expect(server.app.setBudget('vram', { quantum: 1e15 })).rejects.toThrow(/from 0 to 1000000/)
    await expect(database.sql(`update sluice.budgets set quantum = 1e15`)).rejects.toThrow(/quantum/)
    expect((await server.call('GET', '/admin/budgets', { key: admin })).status).toBe(200)
  })
})

test('a task whose uses are no expression, or read something else than input, is refused', async () => {
  for (const vram of ['${{ input. }}', '${{ steps.a }}', '${{ (1 }}']) {
    const answer = await registering({ tasks: [{ name: 'odd', uses: { vram } }] })
    expect(answer.status, answer.text).toBe(400)
    expect(answer.text).toContain('uses of task odd.vram')
  }
  const fine = { name: 'fine', uses: { vram: '${{ input.size }}' } }
  const answer = await registering({ tasks: [fine] })
  expect(answer.status, answer.text).toBe(201)
})

describe('numbers and times that the database cannot hold', () => {
  const line = (at: string) => ({ lines: [{ id: '1', attempt: 1, at, level: 'info', line: 'x' }] })

  test.each([
    '0000-01-01T00:00:00Z',
    '2031-05-01T08:00:00+23:59',
    '2031-05-01T08:00:00-15:00',
    '0044-03-15T08:00:00Z',
  ])('a log line of %s is refused with words', async (at) => {
    const answer = await told('logs', line(at))
    expect(answer.status, answer.text).toBe(400)
    expect(answer.text).toContain('2031-05-01T08:00:00Z')
  })

  test.each(['2031-05-01T08:00:00Z', '2031-05-01T08:00:00.123456+14:00', '1999-12-31T23:59:59-09:30'])(
    'a log line of %s is taken, or refused for its job only',
    async (at) => {
      expect((await told('logs', line(at))).json()).toEqual({ refused: ['1'] })
    },
  )

  test('measurements older than 100 years, and more jobs than anybody has run, are refused', async () => {
    const device = { budget: 'vram', key: 'by-hand/gpu0', name: 'gpu0', total: 1, used: 0, free: 1 }
    expect((await told('devices', { devices: [{ ...device, ageMs: 3e14 }] })).status).toBe(400)
    const ran = (jobs: number, times: number, totalMs = 1) =>
      told('cycle', {
        running: [],
        free: 0,
        news: { ran: Array.from({ length: times }, () => ({ model: 'm', jobs, totalMs })) },
      })
    expect((await ran(2_147_483_647, 1)).status).toBe(400)
    expect((await ran(1, 1, 1e18)).status).toBe(400)
    expect((await ran(1_000_000, 1000)).status).toBe(200)
  })

  test('lists from the year 0 on, or to a zone a day away, are answered', async () => {
    for (const at of ['0000-01-01T00:00:00Z', '2031-05-01T08:00:00%2B23:59', '9999-12-31T23:59:59Z'])
      for (const path of [
        `/jobs?submittedFrom=${at}`,
        `/jobs?finishedTo=${at}`,
        `/audit?since=${at}`,
        `/audit?until=${at}`,
      ]) {
        const { status, text } = await server.call('GET', path, { key: admin })
        expect(status, text).toBeLessThan(500)
        expect(status, text).not.toBe(404)
      }
  })

  test('ids beyond those of the database are jobs that the worker does not hold', async () => {
    const id = '9999999999999999999'
    const answers = [
      await told('cycle', { running: [{ id, attempt: 1 }], free: 0 }),
      await told('cycle', { running: [], ended: [{ id, attempt: 1, ending: 'failed' }], free: 0 }),
      await told('logs', { lines: [{ ...line('2031-05-01T08:00:00Z').lines[0], id }] }),
      await told('progress', { notes: [{ id, attempt: 1, progress: 0.5 }] }),
      await told('steps/load', { id, attempt: 1, name: 's' }),
      await told('steps/save', { id, attempt: 1, name: 's', result: '1' }),
      await told('checkpoint/load', { id, attempt: 1 }),
      await told('checkpoint/save', { id, attempt: 1, value: '1' }),
    ]
    for (const { status, text } of answers) expect(status, text).toBeLessThan(500)
  })
})

test.each(['a\0b', 'a\ud800'])('texts that no table holds, such as %j, are refused by name', async (text) => {
  for (const field of ['name', 'host', 'version', 'request', 'build']) {
    const answer = await registering({ pool: 'burst', [field]: text })
    expect([answer.status, answer.json()]).toMatchObject([400, { code: 'INVALID_ARGUMENT', argument: field }])
  }
  const { id } = (await server.call('POST', '/jobs', { key: admin, body: { task: 'echo' } })).json()
  const odd = {
    method: 'POST',
    path: '/jobs/actions',
    body: { action: 'cancel', filter: {}, all: true, reason: text },
  }
  const asked: { method: string; path: string; argument?: string; body?: object; headers?: object }[] = [odd]
  // An address holds no halves of pairs.
  if (text.includes('\0')) {
    asked.push({ method: 'DELETE', path: `/jobs/${id}?reason=a%00` })
    asked.push({
      method: 'DELETE',
      path: `/jobs/${id}`,
      headers: { 'x-sluice-reason': 'a%00' },
      argument: 'x-sluice-reason',
    })
  }
  for (const { method, path, argument = 'reason', ...more } of asked) {
    const answer = await server.call(method, path, { key: admin, ...(more as object) })
    expect([path, answer.status, answer.json()]).toMatchObject([
      path,
      400,
      { code: 'INVALID_ARGUMENT', argument },
    ])
  }
  expect((await server.call('GET', `/jobs/${id}`, { key: admin })).json()).toMatchObject({ status: 'queued' })
})

describe('values nested too deep', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)

  async function claimed(): Promise<{ worker: string; job: { id: string; attempt: number } }> {
    const { id: worker } = (await registering({})).json<{ id: string }>()
    await server.app.submit('echo', null)
    const answer = await server.call('POST', `/workers/${worker}/cycle`, {
      key,
      // It may be left for a moment to those who came earlier.
      body: { running: [], free: 1, waitMs: 5000 },
    })
    const [job] = answer.json<{ jobs: { id: string; attempt: number }[] }>().jobs
    return { worker, job: { id: job!.id, attempt: job!.attempt } }
  }

  test('such a result of a worker makes its job fail, which everybody can read', async () => {
    for (const [depth, status] of [
      [1000, 'completed'],
      [1001, 'failed'],
      [6000, 'failed'],
    ] as const) {
      const { worker, job } = await claimed()
      const ended = [{ ...job, ending: 'completed', result: nested(depth) }]
      const body = { running: [], ended, free: 0 }
      expect((await server.call('POST', `/workers/${worker}/cycle`, { key, body })).status).toBe(200)
      const read = await server.call('GET', `/jobs/${job.id}`, { key: admin })
      expect(read.status, read.text.slice(0, 200)).toBe(200)
      expect(read.json()).toMatchObject({ status })
    }
  })

  test('such a step or checkpoint is refused', async () => {
    const { worker, job } = await claimed()
    const send = (path: string, body: object) =>
      server.call('POST', `/workers/${worker}/${path}`, { key, body: { ...job, ...body } })
    expect((await send('steps/save', { name: 's', result: nested(6000) })).status).toBe(400)
    expect((await send('checkpoint/save', { value: nested(6000) })).status).toBe(400)
    expect((await send('checkpoint/save', { value: nested(1000) })).status).toBe(200)
  })

  test('such an input is refused by the function for SQL, and one that is as deep as allowed is read', async () => {
    const submit = (depth: number) =>
      database.sql<{ id: string }>(`select sluice.submit('echo', $1) as id`, [nested(depth)])
    await expect(submit(1001)).rejects.toThrow('input: must not be nested deeper than 1000 levels')
    await expect(submit(6000)).rejects.toThrow(/nested deeper than 1000 levels|stack depth/)
    const [row] = await submit(1000)
    const read = await server.call('GET', `/jobs/${row!.id}`, { key: admin })
    expect(read.status, read.text.slice(0, 200)).toBe(200)
  })
})
