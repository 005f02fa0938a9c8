import { beforeAll, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { EVERYTHING, useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const echo = task({ name: 'echo', run: async (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, { tasks: [echo], stale: '10m' })
let admin = ''

beforeAll(async () => {
  admin = await server.keyOf('platform_admin')
  await server.call('POST', '/roles', { key: admin, body: { name: 'runner', permissions: ['workers:run'] } })
})

test.each([
  ['a key that was revoked', 401, (id: string) => server.call('DELETE', `/keys/${id}`, { key: admin })],
  [
    'a key that lost the task',
    403,
    (id: string) => server.call('PATCH', `/keys/${id}`, { key: admin, body: { runs: { tasks: ['other'] } } }),
  ],
  [
    'a role that lost the right',
    403,
    () => server.call('PATCH', '/roles/runner', { key: admin, body: { permissions: ['jobs:read'] } }),
  ],
])('an open poll of %s is given no job', async (_, status, withdraw) => {
  const body = { name: 'rita', role: 'runner', runs: EVERYTHING }
  const made = (await server.call('POST', '/keys', { key: admin, body })).json<{ id: string; key: string }>()
  const { key } = made
  const registered = await server.call('POST', '/workers', {
    key,
    body: { name: 'w', capacity: 1, cores: 1, tasks: [{ name: 'echo' }] },
  })
  const { id } = registered.json<{ id: string }>()
  const poll = server.call('POST', `/workers/${id}/cycle`, {
    key,
    body: { running: [], free: 1, waitMs: 20_000 },
  })
  const asked = performance.now()
  // It has to have waited: what has only just been judged is not judged again.
  await until(() => performance.now() - asked > 300, 'the poll to have waited')
  expect((await withdraw(made.id)).status).toBe(200)
  const job = await server.app.submit('echo', 1)
  const answer = await poll
  expect(answer.status, answer.text).toBe(status)
  const { status: state, attempt } = await server.app.getJob(job.id)
  expect({ state, attempt }).toEqual({ state: 'queued', attempt: 0 })
  await server.app.cancel(job.id)
})
