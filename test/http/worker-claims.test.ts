import { beforeAll, describe, expect, test } from 'vitest'
import { type SluiceOptions, sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'

// What a worker says of itself when it registers, and has no right to.
const echo = task({ name: 'echo', run: async (input: unknown) => input })
const nightly = { name: 'nightly', definition: { steps: { one: { task: 'echo' } } } }
const OPTIONS: SluiceOptions = {
  tasks: [echo],
  workflows: [nightly],
  fleet: { pools: { burst: { max: 3 } } },
}
const database = useDatabase()
const server = useServer(database, OPTIONS)
let key = ''
let admin = ''

beforeAll(async () => {
  key = await server.keyOf('worker')
  admin = await server.keyOf('platform_admin')
})

const register = async (more: object) => {
  const body = { name: 'mallory', capacity: 1, cores: 1, tasks: [{ name: 'echo' }], ...more }
  const answer = await server.call('POST', '/workers', { key, body })
  return [answer.status, answer.json()]
}

describe('the name of a workflow', () => {
  test('is refused to the task of a worker, and the workflow goes on', async () => {
    expect(await register({ tasks: [{ name: 'echo' }, { name: 'nightly' }] })).toMatchObject([
      409,
      { code: 'NAME_TAKEN', name: 'nightly' },
    ])
    const body = { workflow: 'nightly' }
    const submitted = await server.call('POST', '/jobs', { key: admin, body })
    expect(submitted.status, submitted.text).toBe(202)
    const { tasks } = (await server.call('GET', '/tasks', { key: admin })).json<{ tasks: object[] }>()
    expect(tasks).toMatchObject([
      { name: 'echo', kind: 'task' },
      { name: 'nightly', kind: 'workflow' },
    ])
  })

  test('is refused to the task of a program, as that of a task is to a workflow, until it is deleted', async () => {
    const start = async (options: SluiceOptions) => {
      const app = await sluice({ database: database.url, ...options })
      await app.close()
    }
    const other = task({ name: 'nightly', run: async () => null })
    await expect(start({ tasks: [other] })).rejects.toMatchObject({ code: 'NAME_TAKEN' })
    const inner = task({ name: 'inner', run: async () => null })
    const flow = { name: 'echo', definition: { steps: { one: { task: 'inner' } } } }
    await expect(start({ tasks: [inner], workflows: [flow] })).rejects.toMatchObject({ code: 'NAME_TAKEN' })
    expect((await server.app.listTasks()).map(({ kind }) => kind)).toEqual(['task', 'task', 'workflow'])

    const gone = await server.call('DELETE', '/admin/workers/tasks/nightly', { key: admin })
    expect(gone.status, gone.text).toBe(204)
    await start({ tasks: [other] })
    expect((await server.app.listTasks()).map(({ kind }) => kind)).toEqual(['task', 'task', 'task'])
    await server.app.deleteTask('nightly')
    await start({ tasks: [echo], workflows: [nightly] })
    await expect(server.app.deleteTask('nightli')).rejects.toMatchObject({ code: 'TASK_NOT_FOUND' })
  })
})

describe('a pool', () => {
  test.each([
    ['without a request', {}],
    ['with a request that it made up', { request: 'more.1' }],
    ['that does not exist', { pool: 'nowhere', request: 'more.1' }],
  ])('is not joined %s', async (_, more) => {
    expect(await register({ pool: 'burst', ...more })).toMatchObject([409, { code: 'SURPLUS_WORKER' }])
    expect((await server.app.listWorkers()).map(({ name }) => name)).not.toContain('mallory')
  })
})
