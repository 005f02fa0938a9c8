import { beforeAll, beforeEach, expect, test } from 'vitest'
import { SluiceClient } from '../../src/client/index.ts'
import { type Flow, task, workflow } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { findStep } from '../support/trees.ts'
import { until } from '../support/until.ts'

const idle = task({ name: 'idle', lane: 'closed', run: async (_: unknown) => 'ran' })
const picky = task({
  name: 'picky',
  retry: { attempts: 1 },
  run: async (_: unknown) => {
    throw new Error('not yet')
  },
})
const flow = workflow({
  name: 'flow',
  steps: (it: Flow<unknown>) => {
    it.step('only', picky, {})
  },
})
const slow = workflow({
  name: 'slow',
  steps: (it: Flow<unknown>) => {
    it.step('only', idle, {})
  },
})
const database = useDatabase()
const server = useServer(database, {
  tasks: [idle, picky],
  workflows: [flow, slow],
  lanes: { closed: { enabled: false } },
})
let key = ''

beforeAll(async () => {
  key = await server.keyOf('operator', 'olga')
})
beforeEach(() => database.sql('delete from sluice.jobs'))

async function act(body: object, as = key) {
  return server.call('POST', '/jobs/actions', { key: as, body })
}

async function states(): Promise<Record<string, number>> {
  const rows = await database.sql<{ state: string; n: number }>(
    'select state, count(*)::integer as n from sluice.jobs group by state',
  )
  return Object.fromEntries(rows.map(({ state, n }) => [state, n]))
}

test('a dry run counts and changes nothing; then all that matches is cancelled, each in the audit', async () => {
  const jobs = await server.app.submitMany(idle, Array.from({ length: 250 }), { tags: ['old'] })
  await server.app.submitMany(idle, [1, 2], { tags: ['new'] })
  const dry = await act({ action: 'cancel', filter: { tag: 'old' }, dryRun: true })
  expect(dry.json()).toEqual({ matched: 250, changed: 0, refused: [], next: null })
  expect(await states()).toEqual({ ready: 252 })

  const done = await act({ action: 'cancel', filter: { tag: 'old' }, reason: 'too old' })
  expect([done.status, done.json()]).toEqual([200, { matched: 250, changed: 250, refused: [], next: null }])
  expect(await states()).toEqual({ ready: 2, cancelled: 250 })
  expect((await server.app.getJob(jobs[0]!.id)).error).toBe('cancelled: too old')
  const audit = await database.sql(
    `select actor, target, before, after from sluice.audit where action = 'job.cancel' and target = $1`,
    [`job ${jobs[7]!.id}`],
  )
  expect(audit).toEqual([
    {
      actor: 'olga',
      target: `job ${jobs[7]!.id}`,
      before: { status: 'queued' },
      after: { status: 'cancelled', reason: 'too old' },
    },
  ])
  expect((await act({ action: 'cancel', filter: { tag: 'old' } })).json()).toMatchObject({ matched: 0 })
})

test('running jobs are asked to stop, and trees end with all that is below them', async () => {
  const held = task({
    name: 'held',
    run: (_: unknown, { signal }) =>
      new Promise((_, no) => signal.addEventListener('abort', () => no(signal.reason))),
  })
  const { sluice } = await import('../../src/index.ts')
  const app = await sluice({
    database: database.url,
    tasks: [held, idle, picky],
    workflows: [],
    publish: true,
  })
  try {
    await app.work({ capacity: 2 })
    const job = await app.submit(held, null)
    await until(async () => (await app.getJob(job.id)).state === 'running', 'it to run')
    const tree = await server.app.submit(flow, {}, { runAt: '1h' })
    expect((await act({ action: 'cancel', filter: {}, dryRun: true })).json()).toMatchObject({ matched: 2 })
    const unmeant = await act({ action: 'cancel', filter: {} })
    expect([unmeant.status, unmeant.json()]).toMatchObject([
      400,
      { code: 'INVALID_ARGUMENT', argument: 'filter', detail: expect.stringContaining('all: true') },
    ])
    expect((await act({ action: 'cancel', filter: {}, all: true })).json()).toMatchObject({
      matched: 2,
      changed: 2,
    })
    await until(async () => (await app.getJob(job.id)).state === 'cancelled', 'it to be cancelled')
    expect((await app.getJob(tree.id)).state).toBe('cancelled')
  } finally {
    await app.close()
  }
})

test('waiting jobs are reprioritised, others left alone', async () => {
  const jobs = await server.app.submitMany(idle, [1, 2, 3])
  await server.app.cancel(jobs[0]!.id)
  expect((await act({ action: 'priority', priority: 7, filter: { task: 'idle' } })).json()).toMatchObject({
    matched: 2,
    changed: 2,
  })
  expect((await server.app.getJob(jobs[1]!.id)).priority).toBe(7)
  expect((await server.app.getJob(jobs[0]!.id)).priority).toBe(0)
})

test('a running workflow is reprioritised with what is below it, by its id and by filter', async () => {
  await server.app.work()
  const tree = await server.app.submit(slow, {})
  const step = await until(() => findStep(database.sql, tree.id, 'only'), 'its step')
  const one = await server.call('PATCH', `/admin/workers/jobs/${tree.id}/priority`, {
    key,
    body: { priority: 4 },
  })
  expect([one.status, one.json()]).toEqual([200, { id: tree.id, status: 'running', priority: 4 }])
  expect((await server.app.getJob(step)).priority).toBe(4)
  const body = { action: 'priority', priority: 5, filter: { status: ['running'] } }
  expect((await act({ ...body, dryRun: true })).json()).toMatchObject({ matched: 1 })
  expect((await act(body)).json()).toMatchObject({ matched: 1, changed: 1 })
  expect((await server.app.getJob(step)).priority).toBe(5)
  await server.app.cancel(tree.id)
  await until(async () => (await server.app.getJob(tree.id)).state === 'cancelled', 'it to end')
  await server.app.stopWorking()
})

test('retries failed leaf jobs and trees, and names one whose key is taken', async () => {
  await server.app.work()
  const failed = await server.app.submit(picky, {}, { key: 'mine' })
  const tree = await server.app.submit(flow, {})
  await failed.result().catch(() => {})
  await tree.result().catch(() => {})
  await server.app.stopWorking()
  await server.app.submit(picky, { other: true }, { key: 'mine' })

  const answer = await act({ action: 'retry', filter: { status: ['failed'] } })
  expect(answer.json()).toMatchObject({
    matched: 2,
    changed: 1,
    refused: [{ id: failed.id, code: 'KEY_CONFLICT' }],
    next: null,
  })
  expect((await server.app.getJob(tree.id)).state).toBe('running')
  await server.app.cancel(tree.id)
})

test('what an action is not for is refused, and so is who may not', async () => {
  const bad = [
    { action: 'cancel', filter: { status: ['completed'] } },
    { action: 'retry', filter: { status: ['queued'] } },
    { action: 'priority', filter: {} },
    { action: 'retry', filter: {}, priority: 5 },
    { action: 'drop', filter: {} },
    { action: 'cancel' },
    { action: 'cancel', filter: { tagg: 'x' } },
  ]
  for (const body of bad) expect([body, (await act(body)).status]).toEqual([body, 400])
  expect((await act({ action: 'cancel', filter: {} }, await server.keyOf('submitter'))).status).toBe(403)
})

test('the client means all jobs by a filter without a field, as the library does', async () => {
  const client = new SluiceClient({ server: server.url, key: await server.keyOf('operator') })
  const job = await server.app.submit(idle, null, { runAt: '1h' })
  expect(await client.reprioritiseMany({}, 7)).toMatchObject({ refused: [] })
  expect((await server.app.getJob(job.id)).priority).toBe(7)
  await server.app.cancel(job.id)
})
