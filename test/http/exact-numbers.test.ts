import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { task } from '../../src/index.ts'
import { Cli } from '../cli/cli.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const echo = task({ name: 'echo', run: (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, { tasks: [echo] })
const cli = new Cli({ DATABASE_URL: database.url })
const LARGE = '9007199254740993'
let key = ''
let worker = ''

beforeAll(async () => {
  key = await server.keyOf('platform_admin')
  worker = await server.keyOf('worker')
})

async function ended(): Promise<string> {
  const { id } = await server.app.submit(echo, 1)
  await until(async () => (await server.app.getJob(id)).finishedAt !== null, 'the job to end')
  return id
}

test.each([
  ['POST', '/jobs', `{"task":"echo","input":{"orders":[{"id":${LARGE}}]}}`, 'input.orders[0].id'],
  ['POST', '/jobs', `{"task":"echo","input":${LARGE}}`, 'input'],
  ['POST', '/jobs/bulk', `{"jobs":[{"task":"echo"},{"task":"echo","input":[1e400]}]}`, 'jobs[1].input[0]'],
  ['POST', '/schedules', `{"name":"s","task":"echo","cron":"0 3 * * *","input":{"id":${LARGE}}}`, 'input.id'],
])('%s %s refuses a number that would lose digits, with its path', async (method, path, raw, argument) => {
  const answer = await server.call(method, path, { key, raw })
  expect(answer.status).toBe(400)
  expect(answer.json()).toMatchObject({ code: 'INVALID_ARGUMENT', argument })
  expect(answer.json<{ detail: string }>().detail).toMatch(
    /^.*: (9007199254740993|1e400) has more digits than JSON numbers keep; send it as a text: "/,
  )
})

test('a retry refuses an input whose numbers would lose digits', async () => {
  await server.app.work({ name: 'here' })
  const id = await ended()
  const answer = await server.call('POST', `/jobs/${id}/retry`, { key, raw: `{"input":{"n":${LARGE}}}` })
  expect(answer.json()).toMatchObject({ status: 400, argument: 'input.n' })
})

test('a number that stays exact, and a large one as a text, come back as they were sent', async () => {
  const input = { large: LARGE, exact: 9007199254740992, small: 0.1, tiny: 5e-324 }
  const answer = await server.call('POST', '/jobs', { key, body: { task: 'echo', input } })
  const { id } = answer.json<{ id: string }>()
  expect(await server.app.job(id).result()).toEqual(input)
})

test('a worker over HTTP fails its job by a result that would lose digits, and is refused such a step', async () => {
  const register = { name: 'by-hand', capacity: 1, cores: 1, tasks: [{ name: 'distant' }] }
  const { id } = (await server.call('POST', '/workers', { key: worker, body: register })).json<{
    id: string
  }>()
  onTestFinished(async () => {
    await server.call('POST', `/workers/${id}/close`, { key: worker, body: {} })
  })
  const job = (await server.call('POST', '/jobs', { key, body: { task: 'distant' } })).json<{ id: string }>()
  const cycle = (body: object) =>
    server.call('POST', `/workers/${id}/cycle`, { key: worker, body: { running: [], free: 1, ...body } })
  const given = await until(
    async () => (await cycle({ waitMs: 1000 })).json<{ jobs: { attempt: number }[] }>().jobs[0],
    'the job to be given to it',
  )
  const lease = { id: job.id, attempt: given.attempt }
  const step = await server.call('POST', `/workers/${id}/steps/save`, {
    key: worker,
    body: { ...lease, name: 's', result: `{"a":[${LARGE}]}` },
  })
  expect(step.json()).toMatchObject({ code: 'NOT_STORABLE' })
  expect(step.text).toContain(`a[0]: ${LARGE} has more digits`)
  await cycle({ ended: [{ ...lease, ending: 'completed', result: `{"id":${LARGE}}` }], free: 0 })
  expect(await server.app.getJob(job.id)).toMatchObject({
    status: 'failed',
    error: `the result cannot be stored: id: ${LARGE} has more digits than JSON numbers keep; send it as a text: "${LARGE}"`,
  })
})

test('submit --input refuses a number that would lose digits, with its path', async () => {
  const { code, stderr } = await cli.run(['submit', 'echo', '--input', `{"order":{"id":${LARGE}}}`])
  expect(code).toBe(2)
  expect(stderr).toContain(`--input: order.id: ${LARGE} has more digits than JSON numbers keep`)
})
