import { beforeAll, describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'

const echo = task({ name: 'echo', run: async (input: unknown) => input })
const greedy = task({ name: 'greedy', uses: { licences: 3 }, run: async () => 'never' })
const database = useDatabase()
const server = useServer(database, { tasks: [echo, greedy], budgets: { licences: 2 } })
let key = ''

beforeAll(async () => {
  key = await server.keyOf('submitter', 'ann')
})

const submit = (body: unknown, headers: Record<string, string> = {}) =>
  server.call('POST', '/jobs', { key, body, headers })

async function countJobs(): Promise<number> {
  return (await database.sql<{ n: number }>('select count(*)::integer as n from sluice.jobs'))[0]!.n
}

describe('POST /jobs', () => {
  test('stores a job under the name of its key and says where it is', async () => {
    const answer = await submit({ task: 'echo', input: { n: 1 }, priority: 3, tags: ['a'] })
    expect(answer.status).toBe(202)
    const { id, attached } = answer.json<{ id: string; attached: boolean }>()
    expect(attached).toBe(false)
    expect(answer.headers.location).toBe(`/api/v1/jobs/${id}`)
    const job = (await server.at('GET', answer.headers.location!, { key })).json()
    expect(job).toMatchObject({
      task: 'echo',
      input: { n: 1 },
      priority: 3,
      tags: ['a'],
      submittedBy: 'ann',
      status: 'queued',
    })
  })

  test('writes who submitted it into the audit, without the input', async () => {
    const { id } = (await submit({ task: 'echo', input: { secret: 'in-the-input' } })).json<{ id: string }>()
    const [row] = await database.sql<Record<string, unknown>>(
      `select actor, action, key_id is not null as keyed, request_id is not null as traced, a::text as line
         from sluice.audit a where target = $1`,
      [`job ${id}`],
    )
    expect(row).toMatchObject({ actor: 'ann', action: 'job.submit', keyed: true, traced: true })
    expect(row!.line).not.toContain('in-the-input')
  })

  test('links a resubmission and the job it comes from, if the caller may see that one', async () => {
    const { id } = (await submit({ task: 'echo', input: 1 })).json<{ id: string }>()
    const edited = (await submit({ task: 'echo', input: 2, resubmitOf: id })).json<{ id: string }>()
    const get = async (job: string) => (await server.call('GET', `/jobs/${job}`, { key })).json()
    expect(await get(edited.id)).toMatchObject({ resubmitOf: id, resubmittedAs: [], laneChosen: false })
    const named = (await submit({ task: 'echo', lane: 'default' })).json<{ id: string }>()
    expect(await get(named.id)).toMatchObject({ lane: 'default', laneChosen: true })
    expect(await get(id)).toMatchObject({ resubmitOf: null, resubmittedAs: [edited.id] })

    const stranger = await server.keyOf('submitter', 'bob')
    const body = { task: 'echo', input: 3, resubmitOf: id }
    const refused = await server.call('POST', '/jobs', { key: stranger, body })
    expect([refused.status, refused.json().code]).toEqual([404, 'JOB_NOT_FOUND'])
    expect(await get(id)).toMatchObject({ resubmittedAs: [edited.id] })
  })

  test('attaches to the active job with the key, and refuses another input', async () => {
    const first = (await submit({ task: 'echo', input: 1, key: 'k' })).json<{ id: string }>()
    const again = await submit({ task: 'echo', input: 1, key: 'k' })
    expect([again.status, again.json()]).toEqual([200, { id: first.id, attached: true }])
    const other = await submit({ task: 'echo', input: 2, key: 'k' })
    expect([other.status, other.json().code]).toEqual([409, 'KEY_CONFLICT'])
  })

  test('takes times and durations to run at', async () => {
    const at = await submit({ task: 'echo', runAt: '2031-05-01T08:00:00Z' })
    const { id } = at.json<{ id: string }>()
    const job = (await server.call('GET', `/jobs/${id}`, { key })).json()
    expect(job).toMatchObject({ state: 'scheduled', readyAt: '2031-05-01T08:00:00.000Z', input: null })
    expect((await submit({ task: 'echo', runAt: '10m' })).status).toBe(202)
  })

  test.each([
    ['no name', {}, 400, 'task'],
    ['two names', { task: 'echo', workflow: 'echo' }, 400, 'task'],
    ['a task that is called a workflow', { workflow: 'echo' }, 400, 'echo is a task'],
    ['an unknown field', { task: 'echo', prioritty: 1 }, 400, 'did you mean priority'],
    ['a priority that is a text', { task: 'echo', priority: '1' }, 400, 'priority'],
    ['a priority out of bounds', { task: 'echo', priority: 1e9 }, 400, 'priority'],
    ['an unknown task', { task: 'nothing' }, 404, 'nothing'],
    ['an unknown lane', { task: 'echo', lane: 'nowhere' }, 404, 'nowhere'],
    [
      'a moment that is neither',
      { task: 'echo', runAt: 'garbage' },
      400,
      'a time, such as 2031-05-01T08:00:00Z',
    ],
    ['an unknown workflow', { workflow: 'nope' }, 404, 'no workflow named "nope"; '],
    ['a day that does not exist', { task: 'echo', runAt: '2031-13-41T00:00:00Z' }, 400, 'runAt'],
    ['a duration that is none', { task: 'echo', deadline: 'soon' }, 400, 'deadline'],
    ['NUL in the input', { task: 'echo', input: 'a\u0000b' }, 400, 'NUL'],
    ['a lone surrogate', { task: 'echo', input: '\ud800' }, 400, 'surrogate'],
    ['NUL in a key', { task: 'echo', key: 'a\u0000b' }, 400, 'key'],
    ['too many tags', { task: 'echo', tags: Array(51).fill('x') }, 400, 'tags'],
    ['a list', [], 400, 'body'],
    ['null', null, 400, 'body'],
  ])('refuses %s and stores nothing', async (_, body, status, word) => {
    const before = await countJobs()
    const answer = await submit(body)
    expect(answer.status, answer.text).toBe(status)
    expect(answer.headers['content-type']).toBe('application/problem+json')
    expect(answer.json().detail).toContain(word)
    expect(await countJobs()).toBe(before)
  })
})

describe('POST /jobs/bulk', () => {
  test('stores many in the order given', async () => {
    const jobs = Array.from({ length: 500 }, (_, n) => ({ task: 'echo', input: n }))
    const answer = await server.call('POST', '/jobs/bulk', { key, body: { jobs } })
    expect(answer.status).toBe(202)
    const stored = answer.json<{ jobs: { id: string }[] }>().jobs
    expect(stored).toHaveLength(500)
    const job = (await server.call('GET', `/jobs/${stored[321]!.id}`, { key })).json()
    expect(job.input).toBe(321)
  })

  test('writes one line for all of them into the audit', async () => {
    const jobs = [1, 2, 3].map((input) => ({ task: 'echo', input }))
    const answer = await server.call('POST', '/jobs/bulk', { key, body: { jobs } })
    const ids = answer.json<{ jobs: { id: string }[] }>().jobs.map(({ id }) => Number(id))
    const { entries } = await server.app.access.readAudit({
      requestId: String(answer.headers['x-request-id']),
    })
    expect(entries).toMatchObject([
      {
        actor: 'ann',
        action: 'job.submit',
        target: `jobs ${Math.min(...ids)} to ${Math.max(...ids)}`,
        after: { jobs: 3, tasks: ['echo'] },
      },
    ])
  })

  test('stores none when one of them is refused, and says which', async () => {
    const before = await countJobs()
    const jobs = [{ task: 'echo' }, { task: 'echo', deadline: 'never' }]
    const answer = await server.call('POST', '/jobs/bulk', { key, body: { jobs } })
    expect([answer.status, answer.json().detail]).toEqual([400, expect.stringContaining('jobs.1')])
    const unknown = await server.call('POST', '/jobs/bulk', {
      key,
      body: { jobs: [{ task: 'echo' }, { task: 'nothing' }] },
    })
    expect(unknown.status).toBe(404)
    expect(await countJobs()).toBe(before)
  })

  test('says which entry was refused, also where only the database can tell', async () => {
    const stranger = await server.keyOf('submitter', 'bob')
    const mine = (await submit({ task: 'echo', input: { n: 1 }, key: 'mine' })).json<{ id: string }>()
    await server.call('POST', '/jobs', { key: stranger, body: { task: 'echo', input: 1, key: 'theirs' } })
    const before = await countJobs()
    const refused = async (entry: object, headers: Record<string, string> = {}) => {
      const jobs = [{ task: 'echo', key: 'free' }, { task: 'echo' }, entry]
      const answer = await server.call('POST', '/jobs/bulk', { key, body: { jobs }, headers })
      const { code, index, detail, jobId } = answer.json()
      return { status: answer.status, code, index, detail, jobId }
    }
    const of = (status: number, code: string, detail: string) =>
      expect.objectContaining({
        status,
        code,
        index: 2,
        detail: expect.stringContaining(`jobs.2: ${detail}`),
      })
    expect(await refused({ name: 'nothing' })).toEqual(of(404, 'TASK_NOT_FOUND', 'no task'))
    expect(await refused({ task: 'nothing' })).toEqual(of(404, 'TASK_NOT_FOUND', ''))
    expect(await refused({ task: 'echo', lane: 'nowhere' })).toEqual(of(404, 'LANE_NOT_FOUND', 'lane "'))
    expect(await refused({ task: 'greedy' })).toEqual(of(422, 'BUDGET_EXCEEDED', 'task greedy'))
    for (const headers of [{}, { 'idempotency-key': 'bulk-refusal' }]) {
      const held = await refused({ task: 'echo', input: { n: 2 }, key: 'mine' }, headers)
      expect(held).toEqual(of(409, 'KEY_CONFLICT', `key 'mine' of task echo is held by job ${mine.id}`))
      expect(held.jobId).toBe(mine.id)
    }
    const theirs = await refused({ task: 'echo', input: 2, key: 'theirs' })
    expect(theirs).toEqual(of(409, 'KEY_CONFLICT', 'an active job of somebody else has this key'))
    expect(theirs.jobId).toBeUndefined()
    expect(await countJobs()).toBe(before)
  })

  test('rejects two entries with one key and different inputs, without naming a job that was never stored', async () => {
    const bulk = (jobs: object[]) => server.call('POST', '/jobs/bulk', { key, body: { jobs } })
    const dup = (input: unknown) => ({ task: 'echo', key: 'dup', input })
    const answer = await bulk([dup({ a: 1, b: 2 }), { task: 'echo' }, dup({ b: 2, a: 1 }), dup(3)])
    expect([answer.status, answer.json()]).toEqual([
      409,
      expect.objectContaining({
        code: 'KEY_CONFLICT',
        index: 3,
        other: 0,
        detail:
          'jobs.3: jobs.0 in this request has the same key "dup" for task echo, with a different input: use different keys, or the same input',
      }),
    ])
    expect(answer.json().jobId).toBeUndefined()
    expect((await bulk([dup(1), dup(1)])).status).toBe(202)
  })
})
