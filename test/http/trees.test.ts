import { afterAll, beforeAll, expect, test } from 'vitest'
import type { GraphBody } from '../../src/api/graph.ts'
import { type Flow, task, workflow } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { useServer } from '../support/http-server.ts'
import { findStep } from '../support/trees.ts'
import { until } from '../support/until.ts'

const gate = new Gate()
const held = task({ name: 'held', run: async (n: number) => gate.pass(String(n)) })
const picky = task({
  name: 'picky',
  retry: { attempts: 1 },
  run: ({ secret }: { secret: string }) => {
    if (secret === 'wrong') throw new Error('that is not it')
  },
})
const wide = workflow({
  name: 'wide',
  steps: (flow: Flow<unknown>) => {
    const fan = flow.each('fan', [1, 2, 3, 4], held, (n) => n, { concurrency: 1 })
    flow.step('last', held, 5, { needs: [fan] })
  },
})
const guess = workflow({
  name: 'guess',
  steps: (flow: Flow<{ secret: string }>) => {
    const tried = flow.step('try', picky, { secret: flow.input.secret })
    flow.each('again', [1], held, (n) => n, { needs: [tried] })
  },
})
const first = new Gate()
const rest = new Gate()
const slowly = task({ name: 'slow', run: async (n: number) => (n === 1 ? first : rest).pass(String(n)) })
const steps = workflow({
  name: 'slow-flow',
  steps: (flow: Flow<unknown>) => {
    const begun = flow.step('begin', picky, { secret: 'right' })
    const fan = flow.each('fan', [1, 2, 3], slowly, (n) => n, { concurrency: 2, needs: [begun] })
    flow.step('end', picky, { secret: 'right' }, { needs: [fan] })
  },
})
const database = useDatabase()
const server = useServer(database, {
  tasks: [held, picky, slowly],
  workflows: [wide, guess, steps],
  lanes: { default: { perWorker: null } },
})
const keys = { ann: '', bob: '', viewer: '' }

beforeAll(async () => {
  keys.ann = await server.keyOf('submitter', 'ann')
  keys.bob = await server.keyOf('submitter', 'bob')
  keys.viewer = await server.keyOf('viewer')
  await server.app.work({ capacity: 0 })
})
afterAll(() => {
  for (const each of [gate, first, rest]) each.open()
})

async function submit(key: string, body: object): Promise<string> {
  return (await server.call('POST', '/jobs', { key, body })).json<{ id: string }>().id
}

async function ends(id: string, status: string): Promise<void> {
  await until(async () => (await server.app.getJob(id)).status === status, `job ${id} to be ${status}`)
}

test('a window is opened wider while the fan-out runs, by its owner and nobody else', async () => {
  const root = await submit(keys.ann, { workflow: 'wide', input: {} })
  const fan = await until(() => findStep(database.sql, root, 'fan'), 'the fan-out')
  await gate.arrived(1)
  const body = { concurrency: 3 }
  expect((await server.call('PATCH', `/jobs/${fan}/window`, { key: keys.bob, body })).status).toBe(404)
  const answer = await server.call('PATCH', `/jobs/${fan}/window`, { key: keys.ann, body })
  expect([answer.status, answer.json()]).toEqual([200, { before: 1, after: 3 }])
  await gate.arrived(3)
  const tree = (await server.call('GET', `/jobs/${root}/tree?depth=1`, { key: keys.ann })).json<{
    children: { counts: object; children: object[]; hidden: number }[]
    notReached: object
  }>()
  expect(tree.children[0]).toMatchObject({ counts: { total: 4, window: 3 }, children: [], hidden: 4 })
  const strip = await server.call('GET', `/jobs/${fan}/strip?buckets=2`, { key: keys.viewer })
  expect(strip.json()).toMatchObject({
    ...{ total: 4, window: 3, inFlight: 3, size: 2 },
    buckets: [
      { from: 0, to: 1, running: 2, waiting: 0, completed: 0 },
      { from: 2, to: 3, running: 1, waiting: 1, failed: 0 },
    ],
  })
  const none = await server.call('GET', `/jobs/${root}/strip`, { key: keys.ann })
  expect([none.status, none.json().code]).toEqual([409, 'NOT_A_FANOUT'])
  const running = await server.call('GET', `/jobs/${fan}/children?status=running&from=1&limit=1`, {
    key: keys.ann,
  })
  expect(running.json()).toMatchObject({ children: [{ index: 1, status: 'running', task: 'held' }], next: 2 })
  expect((await server.call('GET', `/jobs/${fan}/children`, { key: keys.bob })).status).toBe(404)
  expect(tree.notReached).toEqual({ total: 1, steps: [{ step: 'last', kind: 'task', runs: 'held' }] })
  const { spans } = (await server.call('GET', `/jobs/${root}/waterfall`, { key: keys.ann })).json<{
    spans: { id: string; notReached?: { total: number } }[]
  }>()
  expect(spans.filter(({ notReached }) => notReached !== undefined)).toMatchObject([
    { id: root, notReached: { total: 1 } },
  ])
  const [row] = await database.sql(
    `select actor, before, after from sluice.audit where action = 'job.window' and refused is null`,
  )
  expect(row).toEqual({ actor: 'ann', before: { concurrency: 1 }, after: { concurrency: 3 } })
  gate.open()
  await ends(root, 'completed')
})

test('lists say how far workflows and fan-outs are that run, and of a step how the whole stands', async () => {
  const root = await submit(keys.ann, { workflow: 'slow-flow' })
  const fan = await until(() => findStep(database.sql, root, 'fan'), 'the fan-out')
  const list = async (query: string) =>
    (await server.call('GET', `/jobs?submittedBy=ann&${query}`, { key: keys.viewer })).json<{
      jobs: { id: string; below?: object; rootStatus: string | null; task: string }[]
    }>().jobs
  const belowOf = async (id: string) =>
    (await list('status=running&children=true')).find((job) => job.id === id)?.below
  await first.arrived(1)
  await rest.arrived(1)
  expect(await belowOf(root)).toEqual({
    total: 3,
    ended: 1,
    fanOut: { step: 'fan', total: 3, ended: 0 },
    waitsFor: { step: 'fan', jobId: fan, status: 'running', reason: null, text: 'step fan: 0 of 3 done' },
  })
  first.open()
  await rest.arrived(2)
  await expect.poll(() => belowOf(fan)).toEqual({ total: 3, ended: 1 })
  expect((await belowOf(root)) as object).toMatchObject({ fanOut: { step: 'fan', total: 3, ended: 1 } })
  const leaves = await list('status=running&children=true&task=slow')
  expect(leaves.map(({ below, rootStatus }) => [below, rootStatus])).toEqual([
    [undefined, 'running'],
    [undefined, 'running'],
  ])
  rest.open()
  await ends(root, 'completed')
  const [whole] = await list('task=slow-flow')
  expect([whole?.id, whole?.below, whole?.rootStatus]).toEqual([root, undefined, null])
})

test('a graph has every step with what it needs, also those not reached, and is for who may see the job', async () => {
  const root = await submit(keys.ann, { workflow: 'guess', input: { secret: 'wrong' } })
  await ends(root, 'failed')
  expect((await server.call('GET', `/jobs/${root}/graph`, { key: keys.bob })).status).toBe(404)
  const { job, path, steps } = (
    await server.call('GET', `/jobs/${root}/graph`, { key: keys.viewer })
  ).json<GraphBody>()
  expect([job.id, job.kind, job.status, path]).toEqual([root, 'workflow', 'failed', []])
  expect(steps.map(({ step, kind, runs, needs, on }) => ({ step, kind, runs, needs, on }))).toEqual([
    { step: 'try', kind: 'task', runs: 'picky', needs: [], on: 'success' },
    { step: 'again', kind: 'fanout', runs: 'held', needs: ['try'], on: 'success' },
  ])
  const [tried, again] = steps
  expect(tried?.job).toMatchObject({ status: 'failed', attempt: 1, step: 'try' })
  expect(tried?.job?.error).toContain('that is not it')
  expect(again?.job).toMatchObject({ status: 'skipped', kind: 'fanout' })
  const inner = await server.call('GET', `/jobs/${tried?.job?.id}/graph`, { key: keys.ann })
  expect(inner.json()).toMatchObject({ path: [{ id: root, task: 'guess' }], steps: [] })
})

test("a trace does not compare with somebody else's run, unless its reader may see that too", async () => {
  await ends(await submit(keys.ann, { workflow: 'guess', input: { secret: 'canary-of-ann' } }), 'completed')
  const failed = await submit(keys.bob, { workflow: 'guess', input: { secret: 'wrong' } })
  await ends(failed, 'failed')
  const own = await server.call('GET', `/jobs/${failed}/trace`, { key: keys.bob })
  expect(own.status).toBe(200)
  expect(own.text).toContain('that is not it')
  expect(own.text).not.toContain('canary-of-ann')
  const all = await server.call('GET', `/jobs/${failed}/trace`, { key: keys.viewer })
  expect(all.text).toContain('canary-of-ann')
})
