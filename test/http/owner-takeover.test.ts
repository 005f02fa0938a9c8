import { beforeAll, describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { type Answer, useServer } from '../support/http-server.ts'

const report = task({ name: 'report', run: async (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, { tasks: [report] })
let admin = ''
/** Manages keys, and reads only jobs of its own. */
let clerk = ''

beforeAll(async () => {
  admin = await server.keyOf('platform_admin', 'admin')
  const permissions = ['access:manage', 'jobs:submit', 'jobs:read', 'jobs:cancel']
  await server.call('POST', '/roles', { key: admin, body: { name: 'clerk', permissions } })
  clerk = await server.keyOf('clerk', 'clerk')
})

const make = (name: string, more: object = {}, key = clerk) =>
  server.call('POST', '/keys', { key, body: { name, role: 'submitter', ...more } })

async function keyOf(name: string, role = 'submitter'): Promise<{ id: string; key: string }> {
  const answer = await make(name, { role }, admin)
  expect(answer.status, answer.text).toBe(201)
  return answer.json<{ id: string; key: string }>()
}

async function submit(key: string): Promise<string> {
  const body = { task: 'report', input: { salary: 1 }, runAt: '1h' }
  return (await server.call('POST', '/jobs', { key, body })).json<{ id: string }>().id
}

const schedule = (key: string, name: string) =>
  server.call('POST', '/schedules', { key, body: { name, task: 'report', cron: '0 3 * * *' } })

async function auditOf(query: string) {
  const answer = await server.call('GET', `/audit?${query}`, { key: admin })
  return answer.json<{ entries: Record<string, unknown>[] }>().entries
}

function refusal(answer: Answer): [number, unknown] {
  return [answer.status, answer.json().code]
}

describe('a name that is in use cannot be taken over by the way', () => {
  test.each([
    ['jobs, and no key any more', 'with-jobs', 'jobs and former keys', (key: string) => submit(key)],
    [
      'schedules, and no key any more',
      'with-schedules',
      'schedules and former keys',
      (key: string) => schedule(key, 'hers'),
    ],
    ['a revoked key', 'with-keys', 'former keys', async () => {}],
  ])('with %s', async (_, name, what, leave) => {
    const { id, key } = await keyOf(name)
    await leave(key)
    expect((await server.call('DELETE', `/keys/${id}`, { key: admin })).status).toBe(200)

    const refused = await make(name)
    expect(refusal(refused)).toEqual([403, 'FORBIDDEN'])
    expect(refused.text).toContain(`has ${what}`)
    expect(refused.text).toContain('takeover: true')
    const [line] = await auditOf('action=key.create')
    expect(line).toMatchObject({ actor: 'clerk', refused: 'FORBIDDEN' })

    const taken = await make(name, { takeover: true })
    expect(taken.status, taken.text).toBe(201)
    const created = taken.json<{ id: string }>()
    expect(await auditOf(`target=${encodeURIComponent(`key ${created.id}`)}`)).toMatchObject([
      { actor: 'clerk', action: 'key.create', after: { name, takeover: true } },
    ])
  })

  test('with jobs of a program that never had a key', async () => {
    await server.app.submit(report, 1, { runAt: '1h' })
    const [job] = await server.app.listJobs({ limit: 1 })
    const owner = (await server.call('GET', `/jobs/${job!.id}`, { key: admin })).json<{
      submittedBy: string
    }>()

    expect(refusal(await make(owner.submittedBy))).toEqual([403, 'FORBIDDEN'])
  })

  test('with a key that is good, also not on purpose', async () => {
    const { key } = await keyOf('present')
    const id = await submit(key)

    expect(refusal(await make('present', { takeover: true }))).toEqual([403, 'FORBIDDEN'])
    expect((await server.call('GET', `/jobs/${id}`, { key: clerk })).status).toBe(404)
  })

  test('but is free to who reads all jobs anyway, to its owner, and to all where nobody has it', async () => {
    await keyOf('shared')

    expect((await make('shared', {}, admin)).status).toBe(201)
    expect((await make('clerk')).status).toBe(201)
    expect((await make('nobody-yet')).status).toBe(201)
    const [line] = await auditOf('action=key.create')
    expect(line!.after).not.toHaveProperty('takeover')
  })
})

describe('a key that is revoked', () => {
  test('with its schedules disables all of its owner, and keeps them', async () => {
    const { id, key } = await keyOf('leaver')
    const other = await keyOf('stayer')
    for (const name of ['first', 'second']) expect((await schedule(key, name)).status).toBe(201)
    expect((await schedule(other.key, 'third')).status).toBe(201)

    const revoked = await server.call('DELETE', `/keys/${id}?withSchedules=true`, { key: admin })

    expect(revoked.json()).toMatchObject({ state: 'revoked', pausedSchedules: ['first', 'second'] })
    for (const [name, enabled] of [
      ['first', false],
      ['second', false],
      ['third', true],
    ] as const) {
      const found = await server.call('GET', `/schedules/${name}`, { key: admin })
      expect(found.json(), name).toMatchObject({ enabled })
    }
    expect(
      await auditOf(`target=${encodeURIComponent('schedule first')}&action=schedule.change`),
    ).toMatchObject([{ actor: 'admin', before: { enabled: true }, after: { enabled: false } }])
  })

  test('before can have its schedules disabled later, and without being asked keeps them running', async () => {
    const { id, key } = await keyOf('gone')
    expect((await schedule(key, 'left')).status).toBe(201)

    const plain = await server.call('DELETE', `/keys/${id}`, { key: admin })
    expect(plain.json()).toMatchObject({ pausedSchedules: [] })
    expect((await server.call('GET', '/schedules/left', { key: admin })).json()).toMatchObject({
      enabled: true,
    })

    const later = await server.call('DELETE', `/keys/${id}?withSchedules=true`, { key: admin })
    expect(later.json()).toMatchObject({ pausedSchedules: ['left'] })
  })

  test('by somebody who may do less than it keeps its schedules too', async () => {
    const { id, key } = await keyOf('operator', 'operator')
    expect((await schedule(key, 'kept')).status).toBe(201)

    expect((await server.call('DELETE', `/keys/${id}?withSchedules=true`, { key: clerk })).status).toBe(403)

    expect((await server.call('GET', '/schedules/kept', { key: admin })).json()).toMatchObject({
      enabled: true,
    })
  })
})
