import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { type Answer, type TestServer, useServer } from '../support/http-server.ts'
import { untilNoneLeft } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const nap = task({ name: 'nap', run: async (ms: number) => delay(ms ?? 0) })
const later = task({ name: 'later', run: async (_: unknown) => null })
const database = useDatabase()
const commits = useCommitChecker(database)
const options = { tasks: [nap, later], lanes: { default: { perWorker: 50, poll: '50ms' } } } as const
const server = useServer(database, options)
const second = useServer(database, options)
let key = ''
let operator = ''

beforeAll(async () => {
  key = await server.keyOf('submitter', 'ann')
  operator = await server.keyOf('operator', 'olga')
})

afterEach(async () => {
  const { maxQueued } = await server.app.admission()
  const none = Object.fromEntries(Object.keys(maxQueued).map((name) => [name, null]))
  await server.app.setAdmission({ maxActive: null, maxQueued: none })
  await server.app.stopWorking()
  const left = await database.sql<{ id: string }>(`select id from sluice.jobs where state < 'running'`)
  for (const { id } of left) await server.app.cancel(id)
})

const submit = (body: object, to: TestServer = server): Promise<Answer> =>
  to.call('POST', '/jobs', { key, body })

const change = (body: unknown, by = operator) => server.call('PATCH', '/admin/admission', { key: by, body })

async function countJobs(): Promise<number> {
  return (await database.sql<{ n: number }>('select count(*)::integer as n from sluice.jobs'))[0]!.n
}

test('the start deadline of the database is read and changed, and a submission may have none', async () => {
  const jobOf = async (body: object) => {
    const { id } = (await submit(body)).json<{ id: string }>()
    const { deadlineAt, readyAt } = await server.app.getJob(id)
    return deadlineAt === null ? null : deadlineAt.getTime() - readyAt.getTime()
  }
  expect((await change({ deadline: '2h' })).json()).toMatchObject({
    deadlineMs: 7_200_000,
    operatorSet: expect.arrayContaining(['deadline']),
    defaultSet: [],
  })
  expect(await jobOf({ task: 'later' })).toBe(7_200_000)
  for (const deadline of ['none', null]) expect(await jobOf({ task: 'later', deadline })).toBeNull()
  expect((await change({ deadline: 'soon' })).json()).toMatchObject({ code: 'INVALID_ARGUMENT' })
  expect((await change({ deadline: null })).json()).toMatchObject({ deadlineMs: null })
  expect(await jobOf({ task: 'later' })).toBeNull()
})

describe('at the ceiling', () => {
  test('a submission gets 429, with when to come back and how full it is', async () => {
    await change({ maxActive: 2 })
    await submit({ task: 'later' })
    await submit({ task: 'later' })
    const answer = await submit({ task: 'later' })
    expect(answer.status).toBe(429)
    expect(answer.headers['content-type']).toContain('application/problem+json')
    expect(answer.json()).toMatchObject({ code: 'ADMISSION_REJECTED', ceiling: 2, active: 2 })
    expect(answer.headers['retry-after']).toMatch(/^[1-9]\d*$/)
    expect(answer.json().retryAfter).toBe(Number(answer.headers['retry-after']))
  })

  test('a submission for later gets in, up to maxScheduled, and one that starts now is still refused', async () => {
    await change({ maxActive: 1, maxScheduled: 2 })
    const runAt = new Date(Date.now() + 365 * 86_400_000).toISOString()
    await submit({ task: 'later' })
    for (let n = 0; n < 2; n++) {
      expect((await submit({ task: 'later' })).status).toBe(429)
      expect((await submit({ task: 'later', runAt })).status).toBe(202)
    }
    for (let n = 0; n < 2; n++) {
      const answer = await submit({ task: 'later', runAt: n === 0 ? runAt : '1h' })
      expect(answer.status).toBe(429)
      expect(answer.json()).toMatchObject({ code: 'ADMISSION_REJECTED', maxScheduled: 2, scheduled: 2 })
      expect(answer.headers['retry-after']).toMatch(/^[1-9]\d*$/)
    }
    const many = await server.call('POST', '/jobs/bulk', { key, body: { jobs: [{ task: 'later', runAt }] } })
    expect(many.status).toBe(429)
    expect((await server.call('GET', '/admin/admission', { key: operator })).json()).toMatchObject({
      maxActive: 1,
      active: 1,
      maxScheduled: 2,
      scheduled: 2,
    })
    await change({ maxScheduled: null })
    expect((await submit({ task: 'later', runAt })).status).toBe(202)
    await server.app.resetAdmission()
  })

  test('attaching to an active job goes on, also right after a refusal', async () => {
    await change({ maxActive: 1 })
    const first = (await submit({ task: 'later', key: 'a' })).json<{ id: string }>()
    for (let n = 0; n < 3; n++) {
      expect((await submit({ task: 'later' })).status).toBe(429)
      expect((await submit({ task: 'later', key: 'b' })).status).toBe(429)
      const attached = await submit({ task: 'later', key: 'a' })
      expect([attached.status, attached.json()]).toEqual([200, { id: first.id, attached: true }])
    }
  })

  test('reading is never refused', async () => {
    await change({ maxActive: 1 })
    const { id } = (await submit({ task: 'later' })).json<{ id: string }>()
    expect((await submit({ task: 'later' })).status).toBe(429)
    for (const path of [`/jobs/${id}`, `/jobs/${id}/tree`, `/jobs/${id}/logs`])
      expect((await server.call('GET', path, { key })).status).toBe(200)
  })

  test('many are refused without asking the database for each', async () => {
    await change({ maxActive: 1 })
    await submit({ task: 'later' })
    const before = await countCalls()
    const answers = await Promise.all(Array.from({ length: 200 }, () => submit({ task: 'later' })))
    expect(answers.every(({ status }) => status === 429)).toBe(true)
    expect((await countCalls()) - before).toBeLessThan(60)
  })

  test('a bulk submission is refused whole, and one that fits is let in right after', async () => {
    await change({ maxActive: 5 })
    const bulk = (count: number) =>
      server.call('POST', '/jobs/bulk', { key, body: { jobs: Array(count).fill({ task: 'later' }) } })
    expect((await bulk(3)).status).toBe(202)
    expect((await bulk(3)).json()).toMatchObject({ status: 429, ceiling: 5, active: 3 })
    expect((await bulk(2)).status).toBe(202)
    expect((await bulk(1)).status).toBe(429)
  })

  test('a task that is too deep is refused, others are not', async () => {
    await change({ maxQueued: { later: 1 } })
    expect((await submit({ task: 'later' })).status).toBe(202)
    expect((await submit({ task: 'later' })).json()).toMatchObject({
      status: 429,
      task: 'later',
      maxQueued: 1,
      queued: 1,
    })
    expect((await submit({ task: 'nap' })).status).toBe(202)
  })

  test('a retry counts as a new job', async () => {
    const { id } = (await submit({ task: 'later' })).json<{ id: string }>()
    await server.call('DELETE', `/jobs/${id}`, { key })
    await change({ maxActive: 1 })
    await submit({ task: 'later' })
    const refused = await server.call('POST', `/jobs/${id}/retry`, { key, body: {} })
    expect(refused.json()).toMatchObject({ status: 429, code: 'ADMISSION_REJECTED' })
    expect((await server.call('GET', `/jobs/${id}`, { key })).json().status).toBe('cancelled')
  })

  test('two servers never let in more together than there is room for', async () => {
    await change({ maxActive: 20 })
    const before = await countJobs()
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        submit({ task: 'later', input: i }, i % 2 === 0 ? server : second),
      ),
    )
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(20)
    expect((await countJobs()) - before).toBe(20)
  })
})

/** Statements that tried to store jobs: each refused one has rolled back. */
async function countCalls(): Promise<number> {
  // Counters arrive with a delay of their own; a refusal also counts as a rollback at once.
  const [row] = await database.sql<{ n: number }>(
    `select xact_rollback::integer as n from pg_stat_database where datname = current_database()`,
  )
  return row!.n
}

test('500 clients that follow Retry-After all get in past a ceiling of 50', {
  timeout: 600_000,
}, async () => {
  await change({ maxActive: 50 })
  await server.app.work({ capacity: 0 })
  let refusals = 0
  const client = async (n: number): Promise<string> => {
    for (;;) {
      const answer = await submit({ task: 'nap', input: 1000 }, n % 2 === 0 ? server : second)
      if (answer.status === 202) return answer.json<{ id: string }>().id
      expect(answer.status).toBe(429)
      refusals++
      await delay(Number(answer.headers['retry-after']) * 1000)
    }
  }
  const ids = await Promise.all(Array.from({ length: 500 }, (_, n) => client(n)))
  expect(new Set(ids).size).toBe(500)
  expect(refusals).toBeGreaterThan(100)
  await untilNoneLeft(
    async () =>
      (await database.sql(`select 1 from sluice.jobs where id = any($1) and state <> 'completed'`, [ids]))
        .length,
    'all 500 jobs to complete',
  )
  const { violations, seen } = await commits.catchUp()
  expect(violations).toEqual([])
  expect(seen.admissions).toBeGreaterThanOrEqual(500)
})

describe('/admin/admission', () => {
  test('shows the limits and how far they are used', async () => {
    await change({ maxActive: 10, maxQueued: { later: 5 } })
    await submit({ task: 'later' })
    const seen = await server.call('GET', '/admin/admission', { key: operator })
    expect(seen.json()).toMatchObject({
      maxActive: 10,
      maxQueued: { later: 5 },
      active: 1,
      queued: { later: 1 },
      drainRate: expect.any(Number),
    })
  })

  test('writes a change into the audit', async () => {
    await change({ maxActive: 11 })
    await change({ maxActive: null })
    const rows = await database.sql(
      `select actor, target, before ->> 'maxActive' as before, after ->> 'maxActive' as after
         from sluice.audit where action = 'admission.change' order by id desc limit 1`,
    )
    expect(rows).toEqual([{ actor: 'olga', target: 'admission', before: '11', after: null }])
  })

  test.each([
    [{}, 'the body'],
    [{ maxActive: 0 }, 'maxActive'],
    [{ maxActive: '5' }, 'maxActive'],
    [{ maxQueued: { later: 0 } }, 'maxQueued'],
    [{ maxQueued: { 'no name': 1 } }, 'maxQueued'],
    [{ maxactive: 5 }, 'maxactive'],
  ])('refuses %j', async (body, text) => {
    const answer = await change(body)
    expect([answer.status, answer.json().code]).toEqual([400, 'INVALID_ARGUMENT'])
    expect(answer.json().detail).toContain(text)
  })
})
