import { beforeAll, describe, expect, test } from 'vitest'
import { SluiceClient } from '../../src/client/index.ts'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'

const report = task({ name: 'report', run: async (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, {
  tasks: [report],
  workflows: [{ name: 'chain', definition: { steps: { one: { task: 'report' } } } }],
  schedules: { nightly: { workflow: 'chain', cron: '0 3 * * *', timezone: 'Europe/Berlin' } },
  actor: 'deploy',
})
const keys: Record<'ann' | 'bob' | 'olga' | 'vera', string> = { ann: '', bob: '', olga: '', vera: '' }

beforeAll(async () => {
  keys.ann = await server.keyOf('submitter', 'ann')
  keys.bob = await server.keyOf('submitter', 'bob')
  keys.olga = await server.keyOf('operator', 'olga')
  keys.vera = await server.keyOf('viewer', 'vera')
})

async function names(key: string): Promise<string[]> {
  const { schedules } = (await server.call('GET', '/schedules', { key })).json<{
    schedules: { name: string }[]
  }>()
  return schedules.map(({ name }) => name)
}

describe('schedules over HTTP', () => {
  test('are listed by page, and tell when they fire next', async () => {
    for (const name of ['p1', 'p2', 'p3'])
      await server.call('POST', '/schedules', {
        key: keys.bob,
        body: { name, task: 'report', cron: '0 3 * * *' },
      })
    const page = (await server.call('GET', '/schedules?limit=2', { key: keys.bob })).json<{ next: string }>()
    expect(page).toMatchObject({ schedules: [{ name: 'p1' }, { name: 'p2' }], next: 'p2' })
    const rest = await server.call('GET', `/schedules?after=${page.next}&limit=2`, { key: keys.bob })
    expect(rest.json()).toMatchObject({ schedules: [{ name: 'p3' }], next: null })
    const client = new SluiceClient({ server: server.url, key: keys.bob })
    expect((await client.listSchedules()).map(({ name }) => name)).toEqual(['p1', 'p2', 'p3'])
    const ticks = await client.nextFirings('p1')
    expect(ticks.map((tick) => tick.toISOString().slice(11))).toEqual(Array(10).fill('03:00:00.000Z'))
    expect(ticks[9]!.getTime() - ticks[0]!.getTime()).toBe(9 * 86_400_000)
    expect((await server.call('GET', '/schedules/p1/next', { key: keys.ann })).status).toBe(404)
    for (const name of ['p1', 'p2', 'p3']) await client.removeSchedule(name)
  })

  test('are created, read, changed, fired and removed, each change with its line in the audit', async () => {
    const key = keys.ann
    const created = await server.call('POST', '/schedules', {
      key,
      body: {
        name: 'mine',
        task: 'report',
        cron: '*/5 * * * *',
        input: { secret: 'kept out of the audit' },
        tags: ['a'],
        deadline: '1h',
      },
    })
    expect(created.status, created.text).toBe(201)
    expect(created.headers.location).toBe('/api/v1/schedules/mine')
    expect(created.json()).toMatchObject({
      name: 'mine',
      task: 'report',
      workflow: null,
      timezone: 'UTC',
      tags: ['a'],
      deadlineMs: 3_600_000,
      owner: 'ann',
      declared: false,
      last: null,
      nextAt: expect.stringMatching(/^\d{4}-.*Z$/),
    })
    const changed = await server.call('PATCH', '/schedules/mine', {
      key,
      body: { enabled: false, priority: 4 },
    })
    expect(changed.json()).toMatchObject({ enabled: false, priority: 4, tags: ['a'] })

    const fired = await server.call('POST', '/schedules/mine/fire', { key })
    expect(fired.status, fired.text).toBe(202)
    const { id } = fired.json<{ id: string }>()
    expect(fired.headers.location).toBe(`/api/v1/jobs/${id}`)
    expect((await server.call('GET', `/jobs/${id}`, { key })).json()).toMatchObject({
      task: 'report',
      submittedBy: 'ann',
    })
    expect((await server.call('GET', '/schedules/mine/firings', { key })).json()).toMatchObject({
      firings: [{ jobId: id, askedBy: 'ann', skipped: null }],
      next: null,
    })
    expect((await server.call('GET', '/schedules/mine', { key })).json()).toMatchObject({
      last: { jobId: id },
    })
    expect((await server.call('DELETE', '/schedules/mine', { key })).status).toBe(204)
    expect((await server.call('GET', '/schedules/mine', { key })).status).toBe(404)

    const lines = await database.sql<{ action: string; actor: string; text: string }>(
      `select action, actor, concat(before, after) as text from sluice.audit where target = 'schedule mine' order by id`,
    )
    expect(lines.map(({ action, actor }) => `${actor} ${action}`)).toEqual([
      'ann schedule.create',
      'ann schedule.change',
      'ann schedule.fire',
      'ann schedule.delete',
    ])
    expect(lines.map(({ text }) => text).join()).not.toContain('kept out')
  })

  test('one that is removed while it is fired has fired, or is not there', async () => {
    const key = keys.ann
    for (let round = 0; round < 12; round++) {
      const body = { name: 'short-lived', task: 'report', cron: '0 3 * * *' }
      await server.call('POST', '/schedules', { key, body })
      const [fired, gone] = await Promise.all([
        server.call('POST', '/schedules/short-lived/fire', { key }),
        server.call('DELETE', '/schedules/short-lived', { key }),
      ])
      expect([202, 404], fired.text).toContain(fired.status)
      expect(gone.status, gone.text).toBeLessThan(300)
    }
  })

  test('firings come in pages', async () => {
    const key = keys.ann
    await server.call('POST', '/schedules', { key, body: { name: 'paged', task: 'report', cron: '@yearly' } })
    for (let n = 0; n < 3; n++) await server.call('POST', '/schedules/paged/fire', { key })
    const first = (await server.call('GET', '/schedules/paged/firings?limit=2', { key })).json<{
      firings: object[]
      next: string
    }>()
    expect(first.firings).toHaveLength(2)
    const second = await server.call('GET', `/schedules/paged/firings?limit=2&before=${first.next}`, { key })
    expect(second.json()).toMatchObject({ firings: [{}], next: null })
    await server.call('DELETE', '/schedules/paged', { key })
  })

  test('belong to their creator: others see them with jobs:read:all and change them with workers:manage', async () => {
    await server.call('POST', '/schedules', {
      key: keys.ann,
      body: { name: 'hers', task: 'report', cron: '@daily' },
    })
    expect(await names(keys.ann)).toEqual(['hers'])
    expect(await names(keys.bob)).toEqual([])
    expect(await names(keys.vera)).toEqual(['hers', 'nightly'])
    expect(await names(keys.olga)).toEqual(['hers', 'nightly'])

    // One answer for what is not there and what is not theirs, and no name is suggested.
    for (const name of ['hers', 'her', 'nightl']) {
      for (const [method, path, body] of [
        ['GET', '', undefined],
        ['GET', '/firings', undefined],
        ['PATCH', '', { enabled: false }],
        ['DELETE', '', undefined],
        ['POST', '/fire', undefined],
        ['POST', '/reset', undefined],
      ] as const) {
        const answer = await server.call(method, `/schedules/${name}${path}`, { key: keys.bob, body })
        expect([method, path, answer.status]).toEqual([method, path, 404])
        expect(answer.json()).toMatchObject({
          code: 'SCHEDULE_NOT_FOUND',
          detail: `schedule "${name}" does not exist`,
        })
      }
    }
    expect((await server.call('POST', '/schedules/hers/fire', { key: keys.vera })).status).toBe(403)
    const byOperator = await server.call('PATCH', '/schedules/nightly', {
      key: keys.olga,
      body: { cron: '0 4 * * *' },
    })
    expect(byOperator.json()).toMatchObject({
      cron: '0 4 * * *',
      operatorSet: ['cron'],
      owner: 'deploy',
      updatedBy: 'olga',
    })
    const reset = await server.call('POST', '/schedules/nightly/reset', { key: keys.olga })
    expect(reset.json()).toMatchObject({ cron: '0 3 * * *', operatorSet: [] })
    expect((await server.call('DELETE', '/schedules/hers', { key: keys.olga })).status).toBe(204)
  })

  test('a caller who may read all jobs and submit may not change the schedules of others', async () => {
    const key = await server.keyOf('platform_admin', 'root')
    await server.call('POST', '/roles', {
      key,
      body: { name: 'auditor', permissions: ['jobs:submit', 'jobs:read:all'] },
    })
    const auditor = await server.keyOf('auditor', 'al')
    expect((await server.call('GET', '/schedules/nightly', { key: auditor })).status).toBe(200)
    const refused = await server.call('PATCH', '/schedules/nightly', {
      key: auditor,
      body: { enabled: false },
    })
    expect(refused.json()).toMatchObject({ status: 403, code: 'FORBIDDEN', needs: ['workers:manage'] })
    const [line] = await database.sql(
      `select action, refused from sluice.audit where actor = 'al' order by id desc limit 1`,
    )
    expect(line).toEqual({ action: 'schedule.change', refused: 'FORBIDDEN' })
  })

  test.each([
    [{ name: 'x', task: 'report' }, 400, 'INVALID_ARGUMENT', 'cron'],
    [{ name: 'x', cron: '@daily' }, 400, 'INVALID_ARGUMENT', 'has neither task nor workflow'],
    [{ name: 'x', task: 'report', workflow: 'chain', cron: '@daily' }, 400, 'INVALID_ARGUMENT', 'has both'],
    [
      { name: 'x', task: 'report', cron: '99 * * * *' },
      400,
      'INVALID_ARGUMENT',
      'Invalid value for minute: 99',
    ],
    [{ name: 'x', task: 'report', cron: '@daily', timezone: 'Mars' }, 400, 'INVALID_ARGUMENT', 'a time zone'],
    [{ name: 'x', task: 'report', cron: '@daily', catchUp: 1e9 }, 400, 'INVALID_ARGUMENT', 'catchUp'],
    [{ name: 'x', task: 'report', cron: '@daily', exec: ['rm'] }, 400, 'INVALID_ARGUMENT', 'exec'],
    [{ name: 'x', task: 'report', cron: '@daily', input: { a: '\0' } }, 400, 'NOT_STORABLE', 'NUL'],
    [{ name: '../x', task: 'report', cron: '@daily' }, 400, 'INVALID_ARGUMENT', 'name'],
    [{ name: 'x', task: 'unheard-of', cron: '@daily' }, 404, 'TASK_NOT_FOUND', "no task named 'unheard-of'"],
    [{ name: 'nightly', task: 'report', cron: '@daily' }, 409, 'SCHEDULE_EXISTS', 'nightly'],
  ])('%j is refused', async (body, status, code, detail) => {
    const answer = await server.call('POST', '/schedules', { key: keys.olga, body })
    expect(answer.json()).toMatchObject({ status, code })
    expect(answer.json<{ detail: string }>().detail).toContain(detail)
    expect(await names(keys.olga)).toEqual(['nightly'])
  })

  test('at the ceiling, firing by hand is refused as any submission is', async () => {
    await database.sql(`delete from sluice.jobs where true`)
    await database.sql(`select sluice.change_admission_v1('{"maxActive": 1}', 'test', true)`)
    try {
      expect((await server.call('POST', '/schedules/nightly/fire', { key: keys.olga })).status).toBe(202)
      const refused = await server.call('POST', '/schedules/nightly/fire', { key: keys.olga })
      expect(refused.json()).toMatchObject({ status: 429, code: 'ADMISSION_REJECTED' })
      expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    } finally {
      await database.sql(`select sluice.change_admission_v1('{"maxActive": null}', 'test', true)`)
    }
  })
})
