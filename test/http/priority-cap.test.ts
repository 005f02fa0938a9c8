import { beforeAll, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { readAudit } from '../support/state/audit.ts'

const report = task({ name: 'report', run: (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, { tasks: [report] })
const keys = { ann: '', olga: '', rex: '' }

beforeAll(async () => {
  keys.ann = await server.keyOf('submitter', 'ann')
  keys.olga = await server.keyOf('operator', 'olga')
  const admin = await server.keyOf('platform_admin')
  const body = { name: 'hurried', permissions: ['jobs:submit', 'jobs:read', 'jobs:prioritise'] }
  expect((await server.call('POST', '/roles', { key: admin, body })).status).toBe(201)
  keys.rex = await server.keyOf('hurried', 'rex')
})

/** Each way on which a priority comes in. */
const WAYS = {
  'POST /jobs': (priority: number) => ({ path: '/jobs', body: { task: 'report', priority } }),
  'POST /jobs/bulk': (priority: number) => ({
    path: '/jobs/bulk',
    body: { jobs: [{ task: 'report' }, { task: 'report', priority }] },
  }),
  'POST /schedules': (priority: number, name: string) => ({
    path: '/schedules',
    body: { name, task: 'report', cron: '0 0 1 1 *', priority },
  }),
}

test.each(Object.entries(WAYS))(
  '%s takes a priority above 100 only with jobs:prioritise',
  async (name, of) => {
    const call = (key: string, priority: number, label: string) => {
      const { path, body } = of(priority, label)
      return server.call('POST', path, { key, body })
    }
    expect((await call(keys.ann, 100, 'mine')).status).toBeLessThan(300)
    const refused = await call(keys.ann, 101, 'hasty')
    expect([refused.status, refused.json()]).toMatchObject([
      403,
      {
        code: 'FORBIDDEN',
        detail: expect.stringContaining(
          '101 is above 100, the maximum for the role submitter: a higher priority requires jobs:prioritise',
        ),
      },
    ])
    const action = name === 'POST /schedules' ? 'schedule.create' : 'job.submit'
    const target = name === 'POST /schedules' ? 'schedule hasty' : `POST /api/v1${of(1, '').path}`
    expect(await readAudit(database.sql, target, action)).toMatchObject([
      { actor: 'ann', refused: 'FORBIDDEN' },
    ])
    expect((await call(keys.olga, 101, 'urgent')).status).toBeLessThan(300)
    expect((await call(keys.rex, 1_000_000, 'rex')).status).toBeLessThan(300)
  },
)

test('a schedule cannot be raised above it afterwards', async () => {
  const body = { name: 'raised', task: 'report', cron: '0 0 1 1 *' }
  expect((await server.call('POST', '/schedules', { key: keys.ann, body })).status).toBe(201)
  const raise = (key: string) =>
    server.call('PATCH', '/schedules/raised', { key, body: { priority: 500 } }).then(({ status }) => status)
  expect(await raise(keys.ann)).toBe(403)
  expect(await raise(keys.olga)).toBe(200)
  // Nor does its owner run something else with the priority that it was given.
  const change = (change: object) =>
    server.call('PATCH', '/schedules/raised', { key: keys.ann, body: change }).then(({ status }) => status)
  expect(await change({ input: { other: true } })).toBe(403)
  expect(await change({ input: { other: true }, priority: 100 })).toBe(200)
})
