import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { fail, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { type Answer, useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const square = task({
  name: 'square',
  run: async ({ n }: { n: number }) => {
    if (n < 0) throw fail('negative')
    return n * n
  },
})
const database = useDatabase()
const workflows = [{ name: 'flow', definition: { steps: { one: { task: 'square', with: { n: 3 } } } } }]
const server = useServer(database, { tasks: [square], workflows, lanes: { default: { poll: '50ms' } } })
let ann = ''
let bob = ''
let viewer = ''

beforeAll(async () => {
  ann = await server.keyOf('submitter', 'ann')
  bob = await server.keyOf('submitter', 'bob')
  viewer = await server.keyOf('viewer', 'vera')
})

afterEach(async () => {
  await server.app.setAdmission({ maxActive: null })
  await server.app.stopWorking()
})

const put = (key: string, input?: unknown, by = ann, name = 'square') =>
  server.call('PUT', `/results/${name}/${key}`, { key: by, body: input === undefined ? {} : { input } })
const look = (key: string, by = ann) => server.call('GET', `/results/square/${key}`, { key: by })

/** Repeats until it is there. */
async function ensured(key: string, input: unknown, by = ann, name = 'square'): Promise<Answer> {
  return until(async () => {
    const answer = await put(key, input, by, name)
    return answer.status === 202 ? undefined : answer
  }, `a result for ${key}`)
}

async function jobsOf(key: string): Promise<number> {
  const rows = await database.sql('select 1 from sluice.jobs where key = $1', [key])
  return rows.length
}

describe('PUT /results', () => {
  test('starts a job once, then gives its result, and starts no other for an equal input', async () => {
    const first = await put('a', { n: 4 })
    const { jobId } = first.json<{ jobId: string }>()
    expect([first.status, first.json()]).toEqual([202, { jobId, attached: false }])
    expect(first.headers.location).toBe(`/api/v1/jobs/${jobId}`)
    expect((await put('a', { n: 4 })).json()).toEqual({ jobId, attached: true })
    await server.app.work()
    const done = await ensured('a', { n: 4 })
    expect([done.status, done.json()]).toEqual([200, { jobId, result: 16 }])
    expect((await put('a', { n: 4 })).json()).toEqual({ jobId, result: 16 })
    expect(await jobsOf('a')).toBe(1)
  })

  test('makes one job for many that ask at once', async () => {
    const answers = await Promise.all(Array.from({ length: 40 }, () => put('many', { n: 2 })))
    expect(new Set(answers.map((each) => each.status))).toEqual(new Set([202]))
    expect(new Set(answers.map((each) => each.json().jobId)).size).toBe(1)
    expect(await jobsOf('many')).toBe(1)
  })

  test('starts another after a failure', async () => {
    await server.app.work()
    const { jobId } = (await put('b', { n: -1 })).json<{ jobId: string }>()
    await until(async () => (await server.app.getJob(jobId)).status === 'failed', 'it to fail')
    expect((await put('b', { n: -1 })).json()).toMatchObject({ attached: false })
    await until(async () => (await jobsOf('b')) === 2, 'another job')
    await server.app.stopWorking()
  })

  test('is refused while another input is active, and keeps results by input', async () => {
    await put('c', { n: 5 })
    const other = await put('c', { n: 6 })
    expect([other.status, other.json().code]).toEqual([409, 'KEY_CONFLICT'])
    await server.app.work()
    expect((await ensured('c', { n: 5 })).json().result).toBe(25)
    expect((await ensured('c', { n: 6 })).json().result).toBe(36)
    await server.app.stopWorking()
    await put('c', { n: 7 })
    // The kept result of another input is there, whatever is active now.
    expect((await put('c', { n: 5 })).json().result).toBe(25)
  })

  test('is 429 only when a new job would be needed', async () => {
    await server.app.work()
    await ensured('d', { n: 2 })
    await server.app.stopWorking()
    await put('e', { n: 3 })
    await server.app.setAdmission({ maxActive: 1 })
    expect((await put('d', { n: 2 })).status).toBe(200)
    expect((await put('e', { n: 3 })).status).toBe(202)
    for (let n = 0; n < 2; n++) {
      const refused = await put('f', { n: 4 })
      expect([refused.status, refused.json().code]).toEqual([429, 'ADMISSION_REJECTED'])
      expect(refused.headers['retry-after']).toMatch(/^[1-9]\d*$/)
    }
    expect(await jobsOf('f')).toBe(0)
  })

  test('works for workflows, and for inputs that are left out', async () => {
    await server.app.work()
    const done = await ensured('w', undefined, ann, 'flow')
    expect([done.status, done.json().result]).toEqual([200, { one: 9 }])
  })

  test('gives nobody the result of somebody else', async () => {
    await server.app.work()
    const own = (await ensured('g', { n: 8 })).json<{ jobId: string }>()
    const others = (await ensured('g', { n: 8 }, bob)).json<{ jobId: string }>()
    expect(others.jobId).not.toBe(own.jobId)
    expect((await look('g', bob)).json().jobId).toBe(others.jobId)
    expect((await look('g')).json().jobId).toBe(own.jobId)
  })

  test('writes the submission into the audit', async () => {
    const { jobId } = (await put('h', { n: 1 })).json<{ jobId: string }>()
    const rows = await database.sql('select actor, action from sluice.audit where target = $1', [
      `job ${jobId}`,
    ])
    expect(rows).toEqual([{ actor: 'ann', action: 'job.submit' }])
  })

  test.each([
    ['an unknown task', 'nothing/k', { input: 1 }, 404, 'TASK_NOT_FOUND'],
    ['no name', 'no%20name/k', { input: 1 }, 400, 'INVALID_ARGUMENT'],
    ['NUL in the key', 'square/a%00b', { input: 1 }, 400, undefined],
    ['NUL in the input', 'square/k', { input: '\u0000' }, 400, 'NOT_STORABLE'],
    ['an unknown field', 'square/k', { inputt: 1 }, 400, 'INVALID_ARGUMENT'],
  ])('refuses %s', async (_, path, body, status, code) => {
    const answer = await server.call('PUT', `/results/${path}`, { key: ann, body })
    expect(answer.status).toBe(status)
    if (code !== undefined) expect(answer.json().code).toBe(code)
  })
})

describe('GET /results', () => {
  test('only looks: 404, then 202, then 200, and admission never refuses it', async () => {
    const missing = await look('z')
    expect([missing.status, missing.json().code]).toEqual([404, 'RESULT_NOT_FOUND'])
    expect(await jobsOf('z')).toBe(0)
    const { jobId } = (await put('z', { n: 9 })).json<{ jobId: string }>()
    await server.app.setAdmission({ maxActive: 1 })
    expect((await look('z')).json()).toEqual({ jobId, attached: true })
    expect((await look('z')).status).toBe(202)
    await server.app.work()
    await until(async () => (await look('z')).status === 200, 'the result')
    expect((await look('z', viewer)).json()).toEqual({ jobId, result: 81 })
    expect((await look('z', bob)).status).toBe(404)
  })

  test('tells of the last failure where there is no result', async () => {
    await server.app.work()
    const { jobId } = (await put('y', { n: -2 })).json<{ jobId: string }>()
    const answer = await until(async () => {
      const found = await look('y')
      return found.status === 404 ? found : undefined
    }, 'it to fail')
    expect(answer.json()).toMatchObject({ code: 'RESULT_NOT_FOUND', jobId, lastStatus: 'failed' })
  })
})
