import pg from 'pg'
import { expect, test } from 'vitest'
import { type Sluice, snooze, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

test('higher priority first, then the oldest; one slot means exactly that order', async () => {
  const order: string[] = []
  const strict = task({ name: 'strict', lane: 'single', run: (name: string) => void order.push(name) })
  const options = { tasks: [strict], lanes: { single: { slots: 1 } } }
  const app = await apps.open(options)
  const expected: [number, number, string][] = []
  for (let n = 0; n < 60; n++) {
    const priority = [0, 10, -10, 5, 1_000_000, -1_000_000][(n * 7) % 6]!
    const name = `${n} at ${priority}`
    expected.push([priority, n, name])
    await app.submit(strict, name, { priority })
  }
  // Three workers take turns; the slot keeps them in line.
  for (let i = 0; i < 3; i++) await (await apps.open(options)).work({ capacity: 5 })

  await until(() => order.length === 60, 'all to run')
  expect(order).toEqual(expected.sort((a, b) => b[0] - a[0] || a[1] - b[1]).map((each) => each[2]))
})

test('the order holds over all tasks of a lane', async () => {
  const order: number[] = []
  const tasks = ['x', 'y', 'z'].map((name) =>
    task({ name, lane: 'mixed', run: (n: number) => void order.push(n) }),
  )
  const app = await apps.open({ tasks, lanes: { mixed: { slots: 1 } } })
  for (let n = 0; n < 45; n++) await app.submit(tasks[(n * 5) % 3]!, n, { priority: n % 2 })
  await app.work({ capacity: 1 })

  await until(() => order.length === 45, 'all to run')
  const numbers = Array.from({ length: 45 }, (_, n) => n)
  expect(order).toEqual([...numbers.filter((n) => n % 2 === 1), ...numbers.filter((n) => n % 2 === 0)])
})

test('the task\u2019s priority counts where the submission has none', async () => {
  const order: string[] = []
  const run = (name: string) => void order.push(name)
  const high = task({ name: 'high', lane: 'ranked', priority: 10, run })
  const low = task({ name: 'low', lane: 'ranked', priority: -10, run })
  const app = await apps.open({ tasks: [high, low], lanes: { ranked: { slots: 1 } } })
  await app.submit(low, 'low')
  await app.submit(high, 'high')
  await app.submit(low, 'low, raised', { priority: 11 })
  await app.submit(high, 'high, lowered', { priority: -11 })
  await app.work()

  await until(() => order.length === 4, 'all to run')
  expect(order).toEqual(['low, raised', 'high', 'low', 'high, lowered'])
})

test('a waiting job can be reprioritised, up and down; one that runs or has ended cannot', async () => {
  const order: number[] = []
  const gate = new Gate()
  const lined = task({
    name: 'lined',
    lane: 'line',
    run: async (n: number) => {
      if (n === 0) await gate.pass()
      order.push(n)
    },
  })
  const app = await apps.open({ tasks: [lined], lanes: { line: { slots: 1 } } })
  await app.work()
  const [running, first, second, third] = await app.submitMany(lined, [0, 1, 2, 3])
  await gate.arrived()

  await app.reprioritise(third!.id, 5)
  await app.reprioritise(first!.id, -5)
  expect(await app.getJob(third!.id)).toMatchObject({ priority: 5 })
  await expect(app.reprioritise(running!.id, 1)).rejects.toMatchObject({
    code: 'ILLEGAL_TRANSITION',
    message: `job ${running!.id} is running and cannot be reprioritised: only a waiting job can be, or a workflow that has not ended`,
  })
  await expect(app.reprioritise(second!.id, 0.5)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  gate.open()

  await first!.result()
  expect(order).toEqual([0, 3, 2, 1])
  await expect(app.reprioritise(first!.id, 1)).rejects.toMatchObject({ code: 'ILLEGAL_TRANSITION' })
})

test('ageing lets a low priority rise: one per period waited', async () => {
  const order: string[] = []
  const ages = task({ name: 'ages', lane: 'ageing', run: (name: string) => void order.push(name) })
  const app = await apps.open({ tasks: [ages], lanes: { ageing: { slots: 1 } } })
  // Five periods ago, in the time of the database.
  const old = await app.submit(ages, 'old, 0', { priority: 0 })
  await database.sql(
    `update sluice.jobs set submitted_at = submitted_at - interval '50 minutes' where id = $1`,
    [old.id],
  )
  await app.submit(ages, 'new, 4', { priority: 4 })
  // Ageing that begins now puts what waits in the new order; what comes later has its age from the start.
  await app.setLane('ageing', { ageing: '10m' })
  await app.submit(ages, 'new, 6', { priority: 6 })
  await app.work()

  await until(() => order.length === 3, 'all to run')
  expect(order).toEqual(['new, 6', 'old, 0', 'new, 4'])
})

test.each([
  ['off', '10m', null, 0, ['retried', '1', '2', '3', 'new']],
  ['on', null, '24d', 5, ['new', 'retried', '1', '2', '3']],
] as const)(
  'what runs or waits in a window when ageing is turned %s keeps its place in line',
  async (...given) => {
    const [how, before, after, priority, expected] = given
    const lane = `turned-${how}`
    const order: string[] = []
    const gate = new Gate()
    const turned = task({
      name: lane,
      lane,
      retry: { attempts: 2, delay: '1ms', backoff: 'fixed' },
      run: async ({ n }: { n: string }, ctx) => {
        if (n === 'retried' && ctx.attempt === 1) {
          await gate.pass()
          throw snooze(0)
        }
        order.push(n)
      },
    })
    const steps = {
      each: {
        task: lane,
        with_items: '${{ input.items }}',
        with: { n: '${{ item }}' },
        concurrency: 1,
      },
    }
    const app = await apps.open({
      tasks: [turned],
      workflows: [{ name: `${lane}-fan`, definition: { steps } }],
      lanes: { [lane]: { slots: 1, ...(before === null ? {} : { ageing: before }) } },
    })
    await app.work({ capacity: 1 })
    await app.submit(turned, { n: 'retried' })
    await gate.arrived()
    const fan = await app.submit(`${lane}-fan`, { items: ['1', '2', '3'] })
    await until(
      async () =>
        (
          await database.sql(
            `select 1 from sluice.jobs where task = $1 and (state, idx) in (('ready', 0), ('waiting', 1), ('waiting', 2))`,
            [lane],
          )
        ).length === 3,
      'the children to wait',
    )
    await app.setLane(lane, { ageing: after })
    await app.submit(turned, { n: 'new' }, { priority })
    gate.open()

    await until(() => order.length === 5, 'all to run')
    await fan.result()
    expect(order).toEqual(expected)
  },
)

test('jobs that are lost or run again after ageing was turned off have the rank of their lane as it is now', async () => {
  const plain = task({ name: 'back', lane: 'back', run: (_: unknown) => null })
  const app = await apps.open({
    tasks: [plain],
    workflows: [{ name: 'back-flow', definition: { steps: { fails: { task: 'back' } } } }],
    lanes: { back: { ageing: '10m', enabled: false } },
  })
  await app.work()
  const lost = await app.submit(plain, 1, { priority: 3 })
  const done = await app.submit(plain, 2, { priority: 4 })
  const run = await app.submit('back-flow', null, { priority: 5 })
  const child = await until(
    async () =>
      (await database.sql<{ id: string }>('select id from sluice.jobs where parent_id = $1', [run.id]))[0],
    'the step to wait',
  )
  await app.cancel(done.id, 'to run again')
  await app.cancel(run.id, 'to run again')
  await run.result().catch(() => undefined)
  await database.sql(
    `update sluice.jobs set state = 'running', attempt = 1, worker_id = 0, started_at = now() where id = $1`,
    [lost.id],
  )
  await app.setLane('back', { ageing: null })
  await database.sql(
    `select sluice.end_lost_claims_v1(worker_id, array[seq], 'gone') from sluice.running where id = $1`,
    [lost.id],
  )
  await app.rerun(done.id)
  await app.retry(run.id, { failed: true })
  const rank = async (id: string) =>
    (await database.sql<{ rank: number }>('select rank from sluice.jobs where id = $1', [id]))[0]!.rank

  expect(await rank(lost.id)).toBe(-3)
  expect(await rank(done.id)).toBe(-4)
  expect(await rank(child.id)).toBe(-5)
  for (const each of [lost, done, run]) await app.cancel(each.id)
  await run.result().catch(() => undefined)
})

test('without ageing the highest priority goes first however long others wait', async () => {
  const order: string[] = []
  const plain = task({ name: 'plain', lane: 'unaged', run: (name: string) => void order.push(name) })
  const app = await apps.open({ tasks: [plain], lanes: { unaged: { slots: 1 } } })
  const old = await app.submit(plain, 'old', { priority: 0 })
  await database.sql(`update sluice.jobs set submitted_at = submitted_at - interval '1 year' where id = $1`, [
    old.id,
  ])
  await app.submit(plain, 'new', { priority: 1 })
  await app.work()

  await until(() => order.length === 2, 'both to run')
  expect(order).toEqual(['new', 'old'])
})

/** More than a worker ends while the next ones are submitted. */
const BACKLOG = 5000

/** How the jobs of the backlog are claimed. */
const CLAIMED = ['into slots', 'ahead of slots'] as const
type Claimed = (typeof CLAIMED)[number]

/**
 * Keeps a worker of 20 slots busy with thousands of short jobs, so that its scans remember where they are. The jobs to watch are of the same class: they have
 * an input, and those whose input is `returns` go back to the queue once.
 */
async function underLoad<T>(
  what: string,
  claimed: Claimed,
  work: (app: Sluice, name: string) => Promise<T>,
): Promise<T> {
  const isAhead = claimed === 'ahead of slots'
  const name = `${what}-${isAhead ? 'ahead' : 'off'}`
  const lane = `load-${name}`
  const busy = task({
    name,
    lane,
    run: async (input: string | null, ctx) => {
      if (input === 'returns' && ctx.attempt === 1) throw snooze(0)
      // With prefetch, a worker of jobs that do nothing would outrun the feeder, and then nothing would wait.
      if (input === null)
        await new Promise((resolve) => (isAhead ? setTimeout(resolve, 2) : setImmediate(resolve)))
    },
  })
  const app = await apps.open({
    tasks: [busy],
    lanes: { [lane]: { slots: 20, poll: '2s', ...(!isAhead && { prefetch: 'off' }) } },
  })
  const feed = () => app.submitMany(busy, Array(BACKLOG).fill(null))
  await feed()
  await app.work({ capacity: 20 })
  let over = false
  const feeding = (async () => {
    while (!over) {
      await feed()
      await until(async () => over || (await depth(busy.name)) < BACKLOG, 'the backlog to shrink')
    }
  })()
  try {
    if (isAhead) await until(async () => (await assignedIn(lane)) > 0, 'jobs to be assigned')
    const result = await work(app, name)
    // They still are, so the scan positions were tried beside prefetched jobs.
    if (isAhead) await until(async () => (await assignedIn(lane)) > 0, 'jobs to be assigned all the time')
    else expect(await assignedIn(lane)).toBe(0)
    return result
  } finally {
    over = true
    await feeding
    await database.sql(
      `update sluice.jobs set state = 'cancelled', finished_at = now(), error = 'x' where state = 'ready'`,
    )
  }
}

/** How many jobs of the lane are assigned to a worker and wait for a slot. */
async function assignedIn(lane: string): Promise<number> {
  const [row] = await database.sql<{ n: number }>(
    `select coalesce(sum(cardinality(c.assigned)), 0)::integer as n
       from sluice.claims c join sluice.classes k on k.id = c.class_id where k.lane = $1`,
    [lane],
  )
  return row!.n
}

async function depth(name: string): Promise<number> {
  const [row] = await database.sql<{ n: number }>(
    `select count(*)::integer as n from sluice.queue q join sluice.classes c on c.id = q.class_id
      where c.task = $1 and q.state = 'ready'`,
    [name],
  )
  return row!.n
}

async function now(): Promise<number> {
  return (await database.sql<{ now: Date }>('select clock_timestamp() as now'))[0]!.now.getTime()
}

async function startOf(app: Sluice, id: string): Promise<number> {
  const startedAt = await until(async () => (await app.getJob(id)).startedAt, 'the job to start')
  return startedAt.getTime()
}

/** The lanes' poll with its jitter, and a little for a busy machine. */
const POLL_MS = 2200 + 300

test.each(CLAIMED)(
  'a job committed long after its place in line has passed is found within a poll (jobs claimed %s)',
  async (claimed) => {
    await underLoad('late', claimed, async (app, name) => {
      const client = new pg.Client(database.url)
      await client.connect()
      try {
        for (let round = 0; round < 3; round++) {
          await client.query('begin')
          const job = await app.submit(name, 'late', { transaction: client, priority: 50 })
          // One that comes after it in line runs and ends while it cannot be seen.
          const later = await app.submit(name, 'later', { priority: 50 })
          await later.result()
          const committed = await now()
          await client.query('commit')
          expect((await startOf(app, job.id)) - committed).toBeLessThan(POLL_MS)
        }
      } finally {
        await client.end()
      }
    })
  },
)

test.each(CLAIMED)(
  'a job that was raised while the worker is far down the line starts within a poll (jobs claimed %s)',
  async (claimed) => {
    await underLoad('raised', claimed, async (app, name) => {
      for (let round = 0; round < 3; round++) {
        const job = await app.submit(name, 'raised', { priority: -100 })
        await app.submit(name, 'other', { priority: 50 }).then((other) => other.result())
        expect(await app.getJob(job.id)).toMatchObject({ status: 'queued' })
        const raised = await now()
        await app.reprioritise(job.id, 100)
        expect((await startOf(app, job.id)) - raised).toBeLessThan(POLL_MS)
      }
    })
  },
)

test.each(CLAIMED)(
  'a job that went back to the queue starts again within a poll (jobs claimed %s)',
  async (claimed) => {
    await underLoad('returned', claimed, async (app, name) => {
      for (let round = 0; round < 3; round++) {
        const job = await app.submit(name, 'returns', { priority: 1 })
        await job.result()
        const [first] = await app.listAttempts(job.id)
        expect(first).toMatchObject({ ending: 'snoozed' })
        expect((await startOf(app, job.id)) - first!.endedAt!.getTime()).toBeLessThan(POLL_MS)
      }
    })
  },
)
