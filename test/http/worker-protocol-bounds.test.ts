import { beforeAll, describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'

// What a worker that errs or lies may send, and what must stay readable for everybody else afterwards.
const echo = task({ name: 'echo', run: async (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, { tasks: [echo], stale: '10m' })
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

  test('the table of tasks refuses such a deadline, whoever writes it', async () => {
    await expect(
      database.sql(`update sluice.tasks set deadline_ms = 3153600000001 where name = 'late'`),
    ).rejects.toThrow(/tasks_deadline_ms_check/)
  })
})
