import pg from 'pg'
import { afterEach, expect, test, vi } from 'vitest'
import { retryAt, type Sluice, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { readTime } from '../support/state/clock.ts'
import {
  activeByPriority,
  isPriorityPending,
  largestWrite,
  lockComposite,
  lockJob,
  prioritiesStartedAfter,
} from '../support/state/priorities.ts'
import { countStates, findStep } from '../support/trees.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { ended } from '../support/workflows.ts'

vi.setConfig({ testTimeout: 90_000 })

const database = useDatabase()
useCommitChecker(database)
const apps = useApps(database)

const ITEMS = '${{ range(input.n) }}'
/** Gates that held jobs wait for; opened after each test. */
let gate = new Gate()
const started: string[] = []
const clients: pg.Client[] = []

const held = task({
  name: 'held',
  run: async (_: unknown, ctx) => {
    started.push(ctx.job.id)
    await gate.pass()
  },
})
const quick = task({ name: 'quick', run: (_: unknown, ctx) => void started.push(ctx.job.id) })
const picky = task({
  name: 'picky',
  retry: { attempts: 2 },
  run: async (_: unknown, ctx) => {
    if (ctx.attempt > 1) return
    started.push(ctx.job.id)
    await gate.pass()
    throw retryAt('1h', 'failed on purpose')
  },
})

const broken = task({
  name: 'broken',
  retry: { attempts: 1 },
  run: () => {
    throw new Error('failed on purpose')
  },
})

const workflows = [
  { name: 'part', definition: { steps: { inner: { task: 'held' } } } },
  {
    name: 'whole',
    definition: {
      steps: {
        fan: { task: 'held', with_items: ITEMS, concurrency: 2 },
        nested: { needs: [], steps: { deep: { workflow: 'part' } } },
        later: { task: 'quick', needs: ['fan'] },
      },
    },
  },
  { name: 'wide', definition: { steps: { fan: { task: 'held', with_items: ITEMS, concurrency: 1 } } } },
  {
    name: 'small',
    definition: { steps: { one: { task: 'quick' }, two: { task: 'quick', needs: ['one'] } } },
  },
  {
    name: 'busy',
    definition: {
      steps: {
        all: { with_items: ITEMS, concurrency: 7, workflow: 'small' },
        rest: { task: 'quick', with_items: ITEMS, concurrency: 5, needs: ['all'] },
      },
    },
  },
  { name: 'failing', definition: { steps: { try: { task: 'picky' } } } },
  { name: 'partly', definition: { steps: { bad: { task: 'broken' }, good: { task: 'held' } } } },
]

afterEach(async () => {
  gate.open()
  gate = new Gate()
  started.length = 0
  for (const client of clients.splice(0)) await client.end()
})

function open(slots: number | null): Promise<Sluice> {
  return apps.open({
    tasks: [held, quick, picky, broken],
    workflows,
    lanes: { default: { slots, perWorker: null, poll: '200ms' } },
  })
}

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.directUrl })
  await client.connect()
  clients.push(client)
  return client
}

function below(root: string, step: string): Promise<string> {
  return until(() => findStep(database.sql, root, step), `step ${step} of job ${root}`)
}

async function end(app: Sluice, root: string): Promise<void> {
  gate.open()
  await ended(app, root)
}

test('a running workflow that is reprioritised goes before others, at any depth', async () => {
  const app = await open(1)
  await app.work({ capacity: 1 })
  const root = await app.submit('whole', { n: 4 })
  await until(() => started.length === 1, 'its first job to run')
  await below(root.id, 'inner')
  await until(
    async () => (await countStates(database.sql, root.id, `composite is null`)).waiting === 2,
    'the fan-out to be opened',
  )
  const rivals = await app.submitMany('quick', [1, 2, 3], { priority: 5 })
  await app.reprioritise(root.id, 10)
  // The root, the fan-out, the group and the nested workflow; four items and the inner job.
  expect(await activeByPriority(database.sql, root.id)).toEqual({ 10: 9 })
  expect(await isPriorityPending(database.sql)).toBe(false)

  gate.open()
  await Promise.all(rivals.map((job) => job.result()))
  await ended(app, root.id)
  const first = Math.min(...rivals.map(({ id }) => started.indexOf(id)))
  expect(started.slice(0, first)).toHaveLength(5)
  expect((await app.getJob(await below(root.id, 'later'))).priority).toBe(10)
  await expect(app.reprioritise(root.id, 1)).rejects.toMatchObject({
    code: 'ILLEGAL_TRANSITION',
    message: expect.stringContaining('only a waiting job can be, or a workflow that has not ended'),
  })
})

test('a job of the workflow that runs meanwhile has the new priority when it comes back to the queue', async () => {
  const app = await open(null)
  await app.work({ capacity: 4 })
  const root = await app.submit('failing', null)
  await until(() => started.length === 1, 'the job to run')
  await app.reprioritise(root.id, 3)
  gate.open()
  const job = await until(async () => {
    const found = await app.getJob(await below(root.id, 'try'))
    return found.state === 'scheduled' ? found : undefined
  }, 'the job to wait for its retry')
  expect(job.priority).toBe(3)
  await app.cancel(job.id)
  await ended(app, root.id)
})

test('a job that failed before the change has the new priority when it runs again', async () => {
  const app = await open(null)
  await app.work({ capacity: 4 })
  const root = await app.submit('partly', null)
  const bad = await until(async () => {
    const found = await app.getJob(await below(root.id, 'bad'))
    return found.state === 'failed' ? found : undefined
  }, 'a job to fail')
  await app.reprioritise(root.id, 6)
  expect((await app.getJob(bad.id)).priority).toBe(0)
  await end(app, root.id)
  await app.stopWorking()
  await app.retry(root.id, { failed: true })
  expect(await activeByPriority(database.sql, root.id)).toEqual({ 6: 2 })
  await app.cancel(root.id)
  await app.work()
  await ended(app, root.id)
})

test('what is left of a workflow by a lock follows as soon as the lock is gone', async () => {
  const app = await open(1)
  await app.work({ capacity: 1 })
  const root = await app.submit('whole', { n: 5 })
  await until(() => started.length === 1, 'its first job to run')
  await below(root.id, 'inner')
  const deep = await below(root.id, 'deep')
  const fan = await below(root.id, 'fan')
  const items = await until(async () => {
    const found = await app.listJobs({ parent: fan })
    return found.length === 5 ? found : undefined
  }, 'five items')
  const [one, two] = [await connect(), await connect()]
  await lockJob(one, items[0]!.id)
  await lockComposite(two, deep)

  await app.reprioritise(root.id, 4)
  // One item, and the nested workflow with the job in it.
  expect(await activeByPriority(database.sql, root.id)).toEqual({ 4: 7, 0: 3 })
  await Promise.all([one.query('commit'), two.query('commit')])
  await until(async () => !(await isPriorityPending(database.sql)), 'the rest to follow')
  expect(await activeByPriority(database.sql, root.id)).toEqual({ 4: 10 })
  await end(app, root.id)
})

test('a wide fan-out is reprioritised in batches', async () => {
  const app = await open(1)
  await app.work({ capacity: 1 })
  const root = await app.submit('wide', { n: 2500 })
  await until(
    async () => (await countStates(database.sql, root.id, 'composite is null')).waiting === 2499,
    '2,500 items',
    60_000,
  )
  await app.reprioritise(root.id, -2)
  await until(async () => !(await isPriorityPending(database.sql)), 'the rest to follow', 60_000)
  expect(await activeByPriority(database.sql, root.id)).toEqual({ [-2]: 2502 })
  expect(await largestWrite(database.sql, root.id)).toBeLessThanOrEqual(1001)
  await app.cancel(root.id)
  await end(app, root.id)
})

test('no job is left behind while steps are decided, started and ended by others', async () => {
  const app = await open(null)
  const others = await Promise.all([open(null), open(null)])
  await Promise.all([app, ...others].map((each) => each.work({ capacity: 5 })))
  const root = await app.submit('busy', { n: 60 })
  await until(() => started.length > 0, 'the first job to run')
  let priority = 0
  for (let progress = started.length; started.length < 100; ) {
    priority += 1
    await app.reprioritise(root.id, priority)
    await until(() => started.length > progress, 'the workflow to go on')
    progress = started.length
  }
  // Otherwise it might end before anybody looks.
  await app.setLane('default', { enabled: false })
  await until(async () => !(await isPriorityPending(database.sql)), 'the last change to be complete')
  const since = await readTime(database.sql)
  expect(Object.keys(await activeByPriority(database.sql, root.id))).toEqual([String(priority)])
  await app.setLane('default', { enabled: true })
  expect(await root.result()).toBeDefined()
  const later = await prioritiesStartedAfter(database.sql, root.id, since)
  expect(later.length).toBeGreaterThan(0)
  expect(new Set(later)).toEqual(new Set([priority]))
  expect(priority).toBeGreaterThan(5)
})
