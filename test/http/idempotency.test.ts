import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { forgetAnswers } from '../../src/engine/submit/idempotency.ts'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'

const echo = task({ name: 'echo', run: async (input: unknown) => input ?? null })
const gated = task({ name: 'gated', approval: true, run: async (_: unknown) => null })
const database = useDatabase()
const server = useServer(database, { tasks: [echo, gated], lanes: { default: { poll: '50ms' } } })
const second = useServer(database, { tasks: [echo, gated] })
let ann = ''
let bob = ''
let olga = ''

beforeAll(async () => {
  ann = await server.keyOf('submitter', 'ann')
  bob = await server.keyOf('submitter', 'bob')
  olga = await server.keyOf('operator', 'olga')
})

afterEach(async () => {
  await server.app.setAdmission({ maxActive: null })
})

let keys = 0
const newKey = () => `key-${++keys}`

const post = (path: string, body: unknown, idempotencyKey: string, by = ann, to = server) =>
  to.call('POST', path, { key: by, body, headers: { 'idempotency-key': idempotencyKey } })

async function countJobs(): Promise<number> {
  return (await database.sql<{ n: number }>('select count(*)::integer as n from sluice.jobs'))[0]!.n
}

describe('a request with an Idempotency-Key', () => {
  test('is carried out once; a repeat gets the same answer, also from another server and after the job has ended', async () => {
    const key = newKey()
    const first = await post('/jobs', { task: 'echo', input: 1 }, key)
    expect(first.status).toBe(202)
    expect(first.headers['idempotency-replayed']).toBeUndefined()
    const before = await countJobs()
    await server.app.work()
    await server.app.job(first.json<{ id: string }>().id).result()
    await server.app.stopWorking()
    for (const to of [server, second]) {
      const again = await post('/jobs', { task: 'echo', input: 1 }, key, ann, to)
      expect([again.status, again.text]).toEqual([202, first.text])
      expect(again.headers).toMatchObject({
        'idempotency-replayed': 'true',
        location: first.headers.location,
      })
    }
    expect(await countJobs()).toBe(before)
  })

  test('is refused when it is another request under the same key', async () => {
    const key = newKey()
    await post('/jobs', { task: 'echo', input: 1 }, key)
    for (const [path, body] of [
      ['/jobs', { task: 'echo', input: 2 }],
      ['/jobs/bulk', { jobs: [{ task: 'echo', input: 1 }] }],
    ] as const) {
      const other = await post(path, body, key)
      expect([other.status, other.json().code]).toEqual([409, 'IDEMPOTENCY_CONFLICT'])
    }
  })

  test("means nothing to other callers' requests", async () => {
    const key = newKey()
    const one = await post('/jobs', { task: 'echo' }, key)
    const two = await post('/jobs', { task: 'echo' }, key, bob)
    expect([one.status, two.status]).toEqual([202, 202])
    expect(two.json().id).not.toBe(one.json().id)
  })

  test('is carried out once when it arrives many times at once', async () => {
    const key = newKey()
    const before = await countJobs()
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        post('/jobs', { task: 'echo', input: 7 }, key, ann, i % 2 === 0 ? server : second),
      ),
    )
    for (const answer of answers) expect([202, 409]).toContain(answer.status)
    const refused = answers.filter(({ status }) => status === 409)
    for (const answer of refused) {
      expect(answer.json()).toMatchObject({ code: 'IDEMPOTENCY_CONFLICT', inProgress: true })
      expect(answer.headers['retry-after']).toBe('1')
    }
    const ids = answers.filter(({ status }) => status === 202).map((answer) => answer.json().id)
    expect(new Set(ids).size).toBe(1)
    expect((await countJobs()) - before).toBe(1)
    const again = await post('/jobs', { task: 'echo', input: 7 }, key)
    expect(again.json().id).toBe(ids[0])
  })

  test('that was refused may be sent again, and is carried out then', async () => {
    const key = newKey()
    await post('/jobs', { task: 'echo' }, newKey())
    await server.app.setAdmission({ maxActive: 1 })
    const refused = await post('/jobs', { task: 'echo', input: 'now' }, key)
    expect([refused.status, refused.json().code]).toEqual([429, 'ADMISSION_REJECTED'])
    await server.app.setAdmission({ maxActive: null })
    const taken = await post('/jobs', { task: 'echo', input: 'now' }, key)
    expect(taken.status).toBe(202)
    await server.app.setAdmission({ maxActive: 1 })
    // A repeat gets its answer also where a new submission would be refused.
    expect((await post('/jobs', { task: 'echo', input: 'now' }, key)).json()).toEqual(taken.json())
  })

  test('may store many', async () => {
    const key = newKey()
    const body = {
      jobs: [
        { task: 'echo', input: 1 },
        { task: 'echo', input: 2, key: newKey() },
      ],
    }
    const first = await post('/jobs/bulk', body, key)
    expect(first.json<{ jobs: unknown[] }>().jobs).toHaveLength(2)
    expect((await post('/jobs/bulk', body, key)).text).toBe(first.text)
  })

  test('may approve, reject or retry a job, each once', async () => {
    for (const [action, body] of [
      ['approve', {}],
      ['reject', { comment: 'no' }],
    ] as const) {
      const { id } = (await post('/jobs', { task: 'gated' }, newKey())).json<{ id: string }>()
      const key = newKey()
      const first = await post(`/jobs/${id}/${action}`, body, key, olga)
      expect(first.status).toBe(200)
      expect((await post(`/jobs/${id}/${action}`, body, key, olga)).text).toBe(first.text)
      expect((await post(`/jobs/${id}/${action}`, body, newKey(), olga)).status).toBe(409)
      const lines = await database.sql(
        'select 1 from sluice.audit where target = $1 and action = $2 and refused is null',
        [`job ${id}`, `job.${action}`],
      )
      expect(lines).toHaveLength(1)
    }
    const { id } = (await post('/jobs', { task: 'echo' }, newKey())).json<{ id: string }>()
    await server.call('DELETE', `/jobs/${id}`, { key: ann })
    const key = newKey()
    const first = await post(`/jobs/${id}/retry`, {}, key)
    expect(first.status).toBe(202)
    const again = await post(`/jobs/${id}/retry`, {}, key)
    expect([again.status, again.text, again.headers['idempotency-replayed']]).toEqual([
      202,
      first.text,
      'true',
    ])
  })

  test('may fire a schedule or cancel a job, each once: a repeated cancel does not delete', async () => {
    const schedule = { name: 'yearly', task: 'echo', cron: '0 0 1 1 *' }
    expect((await server.call('POST', '/schedules', { key: ann, body: schedule })).status).toBe(201)
    const key = newKey()
    const before = await countJobs()
    const fired = await post('/schedules/yearly/fire', undefined, key)
    expect(fired.status).toBe(202)
    const again = await post('/schedules/yearly/fire', undefined, key)
    expect([again.status, again.text, again.headers['idempotency-replayed']]).toEqual([
      202,
      fired.text,
      'true',
    ])
    expect((await countJobs()) - before).toBe(1)
    const { id } = fired.json<{ id: string }>()
    const cancel = () =>
      server.call('DELETE', `/jobs/${id}`, { key: ann, headers: { 'idempotency-key': `${key}-cancel` } })
    const cancelled = await cancel()
    expect(cancelled.json()).toEqual({ id, deleted: false, status: 'cancelled' })
    expect((await cancel()).text).toBe(cancelled.text)
    expect((await server.app.getJob(id)).status).toBe('cancelled')
  })

  test('may be used for something else after 24 hours, before and after old answers were pruned', async () => {
    for (const prune of [false, true]) {
      const key = newKey()
      await post('/jobs', { task: 'echo', input: 1 }, key)
      await database.sql(
        `update sluice.idempotency set created_at = created_at - interval '25 hours' where key = $1`,
        [key],
      )
      if (prune) {
        await forgetAnswers(server.app.services.calls)
        expect(await database.sql('select 1 from sluice.idempotency where key = $1', [key])).toEqual([])
      }
      const other = await post('/jobs', { task: 'echo', input: 2 }, key)
      expect([other.status, other.headers['idempotency-replayed']]).toEqual([202, undefined])
    }
  })

  test('is refused where it would not be honoured, before anything is done', async () => {
    const headers = { 'idempotency-key': newKey() }
    const answer = await server.call('POST', '/jobs/actions', {
      key: olga,
      body: { action: 'cancel', filter: {} },
      headers,
    })
    expect([answer.status, answer.json().code]).toEqual([400, 'IDEMPOTENCY_UNSUPPORTED'])
    // What may be done twice needs none, and minds none.
    const lane = { key: olga, body: { slots: 3 }, headers }
    expect((await server.call('PATCH', '/admin/workers/lanes/default', lane)).status).toBe(200)
    expect((await server.call('GET', '/jobs', { key: olga, headers })).status).toBe(200)
  })

  test.each(['', 'a b', 'x'.repeat(201), 'käse'])('is refused when the key is %j', async (key) => {
    const answer = await post('/jobs', { task: 'echo' }, key)
    expect([answer.status, answer.json().code]).toEqual([400, 'INVALID_ARGUMENT'])
    expect(answer.json().detail).toContain('idempotency-key')
  })
})
