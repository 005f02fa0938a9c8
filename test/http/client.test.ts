import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { SluiceClient } from '../../src/client/client.ts'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'

const echo = task({ name: 'echo', run: async (input: unknown) => input })
const broken = task({
  name: 'broken',
  retry: { attempts: 1 },
  run: async () => {
    throw new Error('no luck')
  },
})
const database = useDatabase()
const server = useServer(database, { tasks: [echo, broken] })
let client: SluiceClient

beforeAll(async () => {
  client = new SluiceClient({ server: server.url, key: await server.keyOf('operator', 'olga') })
})

async function jobs(): Promise<number> {
  return (await database.sql<{ n: number }>('select count(*)::integer as n from sluice.jobs'))[0]!.n
}

describe('a program with the client', () => {
  test('submits one or many, and gets results and failures as the library gives them', async () => {
    await server.app.work({ capacity: 4 })
    onTestFinished(() => server.app.stopWorking())
    const one = await client.submit<{ n: number }>('echo', { n: 1 }, { tags: ['one'] })
    expect(await one.result()).toEqual({ n: 1 })
    const many = await client.submitMany<number>('echo', [1, 2, 3])
    expect(await Promise.all(many.map((each) => each.result()))).toEqual([1, 2, 3])
    const failed = await client.submit('broken', null)
    await expect(failed.result()).rejects.toMatchObject({ code: 'JOB_FAILED', details: { jobId: failed.id } })
    const [listed] = await client.listJobs({ tag: 'one' })
    expect(listed).toMatchObject({ id: one.id, status: 'completed', submittedAt: expect.any(Date) })
  })

  test('waits no longer than its timeout, and the job continues', async () => {
    const job = await client.submit('echo', 1, { runAt: '1h' })
    await expect(job.result({ timeout: '50ms' })).rejects.toMatchObject({ code: 'RESULT_TIMEOUT' })
    expect((await client.getJob(job.id)).status).toBe('queued')
  })

  test('may repeat a submission with the same idempotency key', async () => {
    const submit = () => client.submit('echo', 1, { runAt: '1h', idempotencyKey: 'order-7' })
    const first = await submit()
    const before = await jobs()
    expect((await submit()).id).toBe(first.id)
    expect(await jobs()).toBe(before)
  })
})

describe('what cannot be sent is refused before anything is', () => {
  const cycle: { self?: unknown } = {}
  cycle.self = cycle
  test.each([
    ['NaN', Number.NaN],
    ['an infinity in a list', [1, Number.POSITIVE_INFINITY]],
    ['a BigInt', { n: 1n }],
    ['a cycle', cycle],
  ])('%s as input', async (_, input) => {
    const before = await jobs()
    await expect(client.submit('echo', input)).rejects.toMatchObject({ code: 'NOT_STORABLE' })
    expect(await jobs()).toBe(before)
  })

  test.each([
    ['an idempotency key that no header can have', { idempotencyKey: 'é €' }, 'idempotencyKey'],
    ['a date that is none', { runAt: new Date('soon') }, 'runAt'],
  ])('%s', async (_, options, argument) => {
    await expect(client.submit('echo', 1, options)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      details: { argument },
    })
  })
})
