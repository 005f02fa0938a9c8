import { expect, test } from 'vitest'
import { fail, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { ended, nodesOf, stepOf } from '../support/workflows.ts'

const database = useDatabase()
const apps = useApps(database)

const pick = task({
  name: 'pick',
  retry: { attempts: 2, delay: '1ms' },
  run: ({ n, bad }: { n: number; bad?: number }) => {
    if (n === bad) throw new Error(`cannot take ${n}`)
    return n
  },
})
const WIDE = {
  steps: {
    first: { task: 'pick', with: { n: 0 } },
    all: {
      task: 'pick',
      needs: ['first'],
      with_items: '${{ range(input.count) }}',
      concurrency: 50,
      with: { n: '${{ item }}', bad: '${{ input.bad }}' },
    },
    group: {
      needs: ['all'],
      on: 'always',
      steps: {
        inside: { task: 'pick', with: { n: 1 } },
        never: { task: 'pick', when: false, with: { n: 2 } },
      },
    },
    last: { task: 'pick', needs: ['all'], with: { n: 3 } },
  },
}
const CHAIN = {
  steps: { next: { workflow: 'chain', when: '${{ input.n > 1 }}', with: { n: '${{ input.n - 1 }}' } } },
}
const WORKFLOWS = [
  { name: 'wide', definition: WIDE },
  { name: 'chain', definition: CHAIN },
]

test('a tree has every node with its place, status, timing, attempts, error and neighbours', async () => {
  const app = await apps.open({ tasks: [pick], workflows: WORKFLOWS })
  await app.work({ capacity: 10 })
  const job = await app.submit('wide', { count: 4, bad: 2 })
  expect(await ended(app, job.id)).toBe('completed')
  const top = await app.tree(job.id)
  const [first, all, group, last] = top.children
  expect(top).toMatchObject({
    id: job.id,
    parentId: null,
    previousId: null,
    nextId: null,
    kind: 'workflow',
    hidden: 0,
  })
  expect(top.firstChildId).toBe(first!.id)
  expect(first).toMatchObject({
    step: 'first',
    index: 0,
    kind: null,
    task: 'pick',
    status: 'completed',
    attempts: 1,
  })
  expect(first!.finishedAt!.getTime()).toBeGreaterThanOrEqual(first!.startedAt!.getTime())
  expect(all).toMatchObject({
    ...{
      step: 'all',
      kind: 'fanout',
      status: 'failed',
      parentId: job.id,
      previousId: first!.id,
      nextId: group!.id,
    },
    counts: { total: 4, completed: 3, failed: 1, cancelled: 0, window: 50, inFlight: 0 },
  })
  expect(all!.children.map(({ index, status, attempts, error }) => [index, status, attempts, error])).toEqual(
    [
      [0, 'completed', 1, null],
      [1, 'completed', 1, null],
      [2, 'failed', 2, 'cannot take 2'],
      [3, 'completed', 1, null],
    ],
  )
  expect(all!.children[2]).toMatchObject({ previousId: all!.children[1]!.id, nextId: all!.children[3]!.id })
  expect(stepOf(group!, 'never')).toMatchObject({
    status: 'skipped',
    error: 'when is false',
    startedAt: null,
  })
  expect(last).toMatchObject({ status: 'skipped', error: 'all failed', nextId: null })

  // From a node downwards, and as deep as asked for.
  expect((await app.tree(group!.id)).children.map(({ step }) => step)).toEqual(['inside', 'never'])
  const shallow = await app.tree(job.id, { depth: 1 })
  expect(shallow.children.map(({ children, hidden }) => [children.length, hidden])).toEqual([
    ...[
      [0, 0],
      [0, 4],
    ],
    ...[
      [0, 2],
      [0, 0],
    ],
  ])
  expect(await app.tree(job.id, { depth: 0 })).toMatchObject({ children: [], hidden: 4 })
})

test('a wide fan-out is folded: counts, failures first, then the ends', async () => {
  const app = await apps.open({ tasks: [pick], workflows: WORKFLOWS })
  await app.work({ capacity: 50 })
  const job = await app.submit('wide', { count: 1500, bad: 700 })
  await ended(app, job.id)
  const all = stepOf(await app.tree(job.id), 'all')
  expect(all.counts).toMatchObject({ total: 1500, completed: 1499, failed: 1 })
  expect(all.children.map(({ index }) => index)).toEqual([700, 0, 1, 2, 1497, 1498, 1499])
  expect(all.hidden).toBe(1493)
  expect(all.children[0]).toMatchObject({ status: 'failed', error: 'cannot take 700' })
  expect(Number(all.children[0]!.nextId)).toBeGreaterThan(Number(all.children[0]!.id))
})

test('a tree of many levels is walked to its end, by a program that knows nothing of the workflow', async () => {
  const app = await apps.open({ tasks: [pick], workflows: WORKFLOWS })
  await app.work()
  const job = await app.submit('chain', { n: 120 })
  await job.result()
  await app.close()
  const other = await apps.open({ publish: false })
  const nodes = nodesOf(await other.tree(job.id))
  expect(nodes).toHaveLength(121)
  expect(nodes.at(-1)).toMatchObject({ step: 'next', status: 'skipped', error: 'when is false' })
})

test('a tree can be looked at while it runs', async () => {
  const gate = new Gate()
  const held = task({ name: 'pick', run: () => gate.pass() })
  const app = await apps.open({ tasks: [held], workflows: WORKFLOWS })
  await app.work({ capacity: 10 })
  const job = await app.submit('wide', { count: 3 })
  await gate.arrived(1)
  const top = await app.tree(job.id)
  expect(top).toMatchObject({ status: 'running', finishedAt: null })
  expect(top.children.map(({ step, status }) => [step, status])).toEqual([['first', 'running']])
  gate.open()
  await job.result()
})

test('a leaf job is a tree of one; an unknown id has no tree', async () => {
  const app = await apps.open({
    tasks: [
      task({
        name: 'bad',
        retry: { attempts: 1 },
        run: () => {
          throw fail('no')
        },
      }),
    ],
  })
  await app.work()
  const job = await app.submit('bad', null)
  await ended(app, job.id)
  expect(await app.tree(job.id)).toMatchObject({
    id: job.id,
    kind: null,
    error: 'no',
    children: [],
    hidden: 0,
  })
  await expect(app.tree('31337')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
  await expect(app.tree(job.id, { depth: -1 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
})
