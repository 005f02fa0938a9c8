import { beforeAll, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'

const report = task({ name: 'report', run: async (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, { tasks: [report] })
const keys = { ann: '', bob: '', clerk: '', admin: '' }

beforeAll(async () => {
  keys.admin = await server.keyOf('platform_admin', 'admin')
  const permissions = ['access:manage', 'jobs:submit', 'jobs:read']
  await server.call('POST', '/roles', { key: keys.admin, body: { name: 'clerk', permissions } })
  keys.ann = await server.keyOf('submitter', 'ann')
  keys.bob = await server.keyOf('submitter', 'bob')
  keys.clerk = await server.keyOf('clerk', 'clerk')
})

test("a schedule that is fired and attached to somebody else's job says that it may not be read", async () => {
  const body = { name: 'hers', task: 'report', cron: '0 3 * * *', key: 'shared' }
  expect((await server.call('POST', '/schedules', { key: keys.ann, body })).status).toBe(201)
  const submitted = { task: 'report', input: null, key: 'shared' }
  const job = (await server.call('POST', '/jobs', { key: keys.bob, body: submitted })).json<{ id: string }>()
  const fired = await server.call('POST', '/schedules/hers/fire', { key: keys.ann })
  expect(fired.status, fired.text).toBe(200)
  expect(fired.json()).toEqual({ id: job.id, attached: true, readable: false })
  expect(fired.headers.location).toBeUndefined()
  const seen = await server.call('POST', '/schedules/hers/fire', { key: keys.admin })
  expect(seen.json()).toEqual({ id: job.id, attached: true })
  expect(seen.headers.location).toBe(`/api/v1/jobs/${job.id}`)
})

test('only who reads all jobs makes a key with the name of somebody who has one', async () => {
  const make = (name: string, key: string) =>
    server.call('POST', '/keys', { key, body: { name, role: 'clerk' } })
  const refused = await make('ann', keys.clerk)
  expect(refused.status, refused.text).toBe(403)
  expect(refused.text).toContain('jobs:read:all')
  expect((await make('clerk', keys.clerk)).status).toBe(201)
  expect((await make('dora', keys.clerk)).status).toBe(201)
  expect((await make('ann', keys.admin)).status).toBe(201)
})
