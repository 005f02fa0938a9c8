import { beforeAll, describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'

const echo = task({ name: 'echo', run: async (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, { tasks: [echo] })
let ann = ''
let bob = ''
let olga = ''

beforeAll(async () => {
  ann = await server.keyOf('submitter', 'ann')
  bob = await server.keyOf('submitter', 'bob')
  olga = await server.keyOf('operator', 'olga')
})

const submit = (key: string, body: object, headers: Record<string, string> = {}) =>
  server.call('POST', '/jobs', { key, body: { task: 'echo', ...body }, headers })

/** A job of Ann's with a key. */
async function held(key: string, input: unknown = 'of Ann'): Promise<string> {
  return (await submit(ann, { key, input })).json<{ id: string }>().id
}

describe('a key whose active job is of somebody else', () => {
  test('is attached to with an equal input, and the answer says that the job cannot be read', async () => {
    const id = await held('equal')
    const answer = await submit(bob, { key: 'equal', input: 'of Ann' })
    expect([answer.status, answer.json()]).toEqual([200, { id, attached: true, readable: false }])
    expect(answer.headers.location).toBeUndefined()
    expect((await server.app.getJob(id)).submittedBy).toBe('ann')
  })

  test('says the same to a repeat with its Idempotency-Key, in bulk, and of a result', async () => {
    const id = await held('ways')
    const headers = { 'idempotency-key': 'bob-1' }
    for (let n = 0; n < 2; n++) {
      const answer = await submit(bob, { key: 'ways', input: 'of Ann' }, headers)
      expect(answer.json()).toEqual({ id, attached: true, readable: false })
    }
    const jobs = [{ task: 'echo' }, { task: 'echo', key: 'ways', input: 'of Ann' }]
    const bulk = await server.call('POST', '/jobs/bulk', { key: bob, body: { jobs } })
    expect(bulk.json<{ jobs: unknown[] }>().jobs).toEqual([
      { id: expect.any(String), attached: false },
      { id, attached: true, readable: false },
    ])
    const path = '/results/echo/ways'
    const result = await server.call('PUT', path, { key: bob, body: { input: 'of Ann' } })
    expect([result.status, result.json()]).toEqual([202, { jobId: id, attached: true, readable: false }])
    expect(result.headers.location).toBeUndefined()
    expect((await server.call('GET', path, { key: bob })).status).toBe(404)
  })

  test('gives no right to its job: reading, following, cancelling and retrying are 404', async () => {
    const id = await held('rights')
    await submit(bob, { key: 'rights', input: 'of Ann' })
    for (const path of ['', '/tree', '/trace', '/logs', '/attempts', '/why', '/stream']) {
      const answer = await server.call('GET', `/jobs/${id}${path}`, { key: bob })
      expect([path, answer.status, answer.json().code]).toEqual([path, 404, 'JOB_NOT_FOUND'])
    }
    expect((await server.call('DELETE', `/jobs/${id}`, { key: bob })).status).toBe(404)
    expect((await server.call('POST', `/jobs/${id}/retry`, { key: bob, body: {} })).status).toBe(404)
    const { jobs } = (await server.call('GET', '/jobs?key=rights', { key: bob })).json<{ jobs: unknown[] }>()
    expect(jobs).toEqual([])
    expect((await server.app.getJob(id)).status).toBe('queued')
  })

  test('is refused with another input, without a word about the job that has it', async () => {
    const id = await held('conflict', 'a secret of Ann')
    const answers = [
      await submit(bob, { key: 'conflict', input: 'of Bob' }),
      await submit(bob, { key: 'conflict', input: 'of Bob' }, { 'idempotency-key': 'bob-2' }),
      await server.call('POST', '/jobs/bulk', {
        key: bob,
        body: { jobs: [{ task: 'echo', key: 'conflict' }] },
      }),
      await server.call('PUT', '/results/echo/conflict', { key: bob, body: { input: 'of Bob' } }),
    ]
    for (const [nth, answer] of answers.entries()) {
      const { requestId, ...problem } = answer.json<Record<string, unknown>>()
      expect(problem).toEqual({
        type: 'about:blank',
        title: 'Conflict',
        status: 409,
        code: 'KEY_CONFLICT',
        detail: expect.stringContaining('somebody else'),
        // Of many: which of Bob's own entries it was.
        ...(nth === 2 && { index: 0 }),
      })
      expect(JSON.stringify(problem)).not.toMatch(new RegExp(`secret|ann|\\b${id}\\b`, 'i'))
    }
  })

  test('is named to callers who may read it: its owner, and those who read all jobs', async () => {
    const id = await held('named')
    const own = await submit(ann, { key: 'named', input: 'of Ann' })
    expect(own.json()).toEqual({ id, attached: true })
    expect(own.headers.location).toBe(`/api/v1/jobs/${id}`)
    expect((await submit(olga, { key: 'named', input: 'of Ann' })).json()).toEqual({ id, attached: true })
    for (const key of [ann, olga])
      expect((await submit(key, { key: 'named', input: 2 })).json()).toMatchObject({ status: 409, jobId: id })
  })

  test('gives a job of one\u2019s own once it is free', async () => {
    const id = await held('later')
    await submit(bob, { key: 'later', input: 'of Ann' })
    await server.call('DELETE', `/jobs/${id}`, { key: ann })
    const own = await submit(bob, { key: 'later', input: 'of Ann' })
    expect([own.status, own.json().attached]).toEqual([202, false])
    expect((await server.at('GET', own.headers.location!, { key: bob })).json().submittedBy).toBe('bob')
  })
})
