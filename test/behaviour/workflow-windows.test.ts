import { expect, test } from 'vitest'
import { hasCode, type Sluice, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { settled } from '../support/persistent-caller.ts'
import { SeededRandom } from '../support/seeded-random.ts'
import { countStates, findStep } from '../support/trees.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const database = useDatabase()
const commits = useCommitChecker(database)
const apps = useApps(database)
const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 1e9))

function fanOut(task: string, concurrency: number, more: object = {}) {
  return {
    steps: {
      fan: { task, with_items: '${{ input.items }}', concurrency, with: { at: '${{ item }}' }, ...more },
    },
  }
}

function numbers(count: number): { items: number[] } {
  return { items: Array.from({ length: count }, (_, n) => n) }
}

async function fanOutOf(root: string): Promise<string> {
  return until(() => findStep(database.sql, root, 'fan'), `the fan-out of workflow ${root}`)
}

async function inFlight(fan: string): Promise<number> {
  const [row] = await database.sql<{ n: number }>(
    `select count(*)::integer as n from sluice.jobs where parent_id = $1 and state < 'completed' and state <> 'waiting'`,
    [fan],
  )
  return row!.n
}

test('five items with a window of three: three start, and each that ends lets the next one in its place start', async () => {
  const gates = Array.from({ length: 5 }, () => new Gate())
  const started: number[] = []
  const step = task({
    name: 'traced',
    run: async ({ at }: { at: number }) => {
      started.push(at)
      await gates[at]!.pass()
      return at
    },
  })
  const app = await apps.open({
    tasks: [step],
    workflows: [{ name: 'trace', definition: fanOut('traced', 3) }],
    lanes: { default: { perWorker: null } },
  })
  await app.work({ capacity: 10 })
  const job = await app.submit('trace', numbers(5))
  const fan = await fanOutOf(job.id)
  await until(() => started.length === 3, 'three to start')
  expect(await countStates(database.sql, job.id, 'composite is null')).toEqual({ running: 3, waiting: 2 })
  gates[1]!.open()
  await until(() => started.includes(3), 'the fourth to start')
  gates[0]!.open()
  await until(() => started.includes(4), 'the fifth to start')
  expect(started.toSorted()).toEqual([0, 1, 2, 3, 4])
  expect(await inFlight(fan)).toBe(3)
  for (const gate of gates) gate.open()
  expect(await job.result()).toEqual({ fan: [0, 1, 2, 3, 4] })
})

test('cancelling a child that waits lets no other start in its place', async () => {
  const gate = new Gate()
  const held = task({ name: 'held', run: ({ at }: { at: number }) => gate.pass().then(() => at) })
  const app = await apps.open({
    tasks: [held],
    workflows: [{ name: 'waits', definition: fanOut('held', 2, { strategy: 'ignore' }) }],
    lanes: { default: { perWorker: null } },
  })
  await app.work({ capacity: 10 })
  const job = await app.submit('waits', numbers(6))
  const fan = await fanOutOf(job.id)
  await gate.arrived(2)
  const waiting = await database.sql<{ id: string }>(
    `select id from sluice.jobs where parent_id = $1 and state = 'waiting' order by idx`,
    [fan],
  )
  expect(waiting).toHaveLength(4)
  for (const { id } of waiting.slice(1)) await app.cancel(id)
  expect(await inFlight(fan)).toBe(2)
  gate.open()
  const { fan: results } = (await job.result()) as { fan: (number | null)[] }
  expect(results.filter((result) => result !== null)).toHaveLength(3)
})

test('a window is made larger, smaller, closed and opened again while it runs', async () => {
  let gate = new Gate()
  const held = task({ name: 'held', run: ({ at }: { at: number }) => gate.pass().then(() => at) })
  const app = await apps.open({
    tasks: [held],
    workflows: [{ name: 'resized', definition: fanOut('held', 2) }],
    lanes: { default: { perWorker: null } },
  })
  await app.work({ capacity: 20 })
  const job = await app.submit('resized', numbers(30))
  const fan = await fanOutOf(job.id)
  await gate.arrived(2)
  expect(await app.resizeWindow(fan, 5)).toEqual({ before: 2, after: 5 })
  await gate.arrived(5)
  expect(await inFlight(fan)).toBe(5)

  await app.resizeWindow(fan, 1)
  const first = gate
  gate = new Gate()
  first.open()
  await gate.arrived(1)
  await until(async () => (await inFlight(fan)) === 1, 'one to be left in flight')

  await app.resizeWindow(fan, 0)
  const second = gate
  gate = new Gate()
  second.open()
  await until(async () => (await inFlight(fan)) === 0, 'none to be in flight')
  expect((await app.getJob(job.id)).status).toBe('running')
  const [healed] = await database.sql<{ n: number }>(
    `with old as (update sluice.jobs set started_at = started_at - interval '1 minute' where root_id = $1 and composite is not null)
     select sluice.wake_stuck_composites_v1() as n`,
    [job.id],
  )
  expect(healed!.n, 'alarms about a fan-out that was paused').toBe(0)
  expect(gate.arrivals).toEqual([])

  gate.open()
  await app.resizeWindow(fan, 7)
  expect(await job.result()).toEqual({ fan: numbers(30).items })
  await expect(app.resizeWindow(fan, 2)).rejects.toSatisfy((error) => hasCode(error, 'ILLEGAL_TRANSITION'))
})

test('a place that is passed on is no way past the queue: what comes first in the lane starts first', async () => {
  const gate = new Gate()
  const order: string[] = []
  const first = task({
    name: 'first',
    lane: 'line',
    run: async ({ at }: { at: number }) => {
      if (at === 0) await gate.pass()
      order.push(`child ${at}`)
    },
  })
  const other = task({
    name: 'other',
    lane: 'line',
    run: ({ name }: { name: string }) => void order.push(name),
  })
  const app = await apps.open({
    tasks: [first, other],
    workflows: [{ name: 'line', definition: fanOut('first', 1) }],
    lanes: { line: { slots: 1 } },
  })
  await app.work({ capacity: 5 })
  const job = await app.submit('line', numbers(4))
  await gate.arrived(1)
  await app.submit(other, { name: 'urgent' }, { priority: 5 })
  await app.submit(first, { at: 9 }, { priority: 5 })
  const last = await app.submit(other, { name: 'later' })
  gate.open()
  await Promise.all([job.result(), last.result()])
  expect(order).toEqual(['child 0', 'urgent', 'child 9', 'child 1', 'child 2', 'child 3', 'later'])
})

test('a fan-out in one lane leaves the jobs of another their share of the worker', async () => {
  const gate = new Gate()
  const order: string[] = []
  const child = task({
    name: 'child',
    lane: 'fan',
    run: async ({ at }: { at: number }) => {
      if (at === 0) await gate.pass()
      order.push('fan')
    },
  })
  const other = task({ name: 'beside', lane: 'beside', run: () => void order.push('beside') })
  const app = await apps.open({
    tasks: [child, other],
    workflows: [{ name: 'shares', definition: fanOut('child', 1) }],
    lanes: { fan: { slots: 5 }, beside: { slots: 5 } },
  })
  await app.work({ capacity: 1 })
  const job = await app.submit('shares', numbers(10))
  await gate.arrived(1)
  const beside = await app.submitMany(other, Array.from({ length: 10 }))
  gate.open()
  await Promise.all([job.result(), ...beside.map((each) => each.result())])
  // One slot for both: they take turns until one of them has nothing left.
  for (const share of [order.slice(1, 5), order.slice(1, 15)])
    expect(Math.abs(share.filter((lane) => lane === 'fan').length - share.length / 2)).toBeLessThanOrEqual(1)
})

test(`windows hold while children end in every way and are resized all the time (seed ${seed})`, {
  timeout: 240_000,
}, async () => {
  const random = new SeededRandom(seed)
  const runs = Array.from({ length: 6 }, (_, n) => ({
    items: Array.from({ length: random.whole(20, 60) }, () => random.whole(0, 9)),
    window: random.whole(1, 6),
    nested: n % 3 === 2,
  }))
  const cancels = new Set<string>()
  let canceller: Sluice | undefined
  const act = task({
    name: 'act',
    retry: { attempts: 2, backoff: 'fixed', delay: '1ms' },
    run: async ({ at }: { at: number }, ctx) => {
      if (at === 0) throw new Error('fails for good')
      if (at === 1 && ctx.attempt === 1) throw new Error('fails once')
      if (at === 2) {
        cancels.add(ctx.job.id)
        await canceller!.cancel(ctx.job.id)
        await new Promise((_, reject) => {
          if (ctx.signal.aborted) reject(ctx.signal.reason)
          ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason))
        })
      }
      return at
    },
  })
  const flat = (window: number) => fanOut('act', window, { strategy: 'ignore' })
  const workflows = runs.flatMap(({ window, nested }, n) => [
    { name: `run${n}`, definition: nested ? outer(`inner${n}`, window) : flat(window) },
    { name: `inner${n}`, definition: flat(2) },
  ])
  const options = { tasks: [act], workflows, lanes: { default: { perWorker: null } } }
  const workers = await Promise.all([apps.open(options), apps.open(options), apps.open(options)])
  canceller = workers[0]!
  await Promise.all(workers.map((app) => app.work({ capacity: 6 })))
  const jobs = await Promise.all(
    runs.map(({ items, nested }, n) =>
      workers[n % 3]!.submit(`run${n}`, { items: nested ? [items, items, items] : items }),
    ),
  )

  let isOver = false
  const operating = Promise.all(
    jobs.map(async (job, n) => {
      const fan = await fanOutOf(job.id)
      while (!isOver) {
        const change = workers[random.whole(0, 2)]!.resizeWindow(fan, random.whole(0, 8))
        const ended = await change.then(
          () => false,
          (error) => {
            if (!hasCode(error, 'ILLEGAL_TRANSITION')) throw error
            return true
          },
        )
        if (ended) return
        // What waits is cancelled now and then, too.
        const [waiting] = await database.sql<{ id: string }>(
          `select id from sluice.jobs where parent_id = $1 and state = 'waiting' order by idx desc limit 1`,
          [fan],
        )
        if (waiting !== undefined && random.chance(0.1)) await workers[1]!.cancel(waiting.id).catch(() => {})
        if (random.chance(0.2)) await workers[2]!.resizeWindow(fan, runs[n]!.window + 1).catch(() => {})
      }
    }),
  )
  const ends = Promise.all(jobs.map((job) => settled(job)))
  await Promise.race([ends, operating])
  isOver = true
  await operating
  await Promise.all(
    jobs.map(async (job) => workers[0]!.resizeWindow(await fanOutOf(job.id), 3).catch(() => {})),
  )
  for (const { error } of await ends) expect(error).toBeUndefined()
  const [left] = await database.sql<{ n: number; tokens: number; wakeups: number }>(
    `select (select count(*) from sluice.jobs where state < 'completed')::integer as n,
            (select sum(tokens) from sluice.composites)::integer as tokens,
            (select count(*) from sluice.wakeups)::integer as wakeups`,
  )
  expect(left!.n).toBe(0)
  const checker = await commits.catchUp()
  expect(checker.violations).toEqual([])
  // The checker saw every one of them come through a window; only of what was cancelled the rows do not tell.
  const [through] = await database.sql<{ started: number; unsure: number }>(
    `select count(*) filter (where c.started_at is not null)::integer as started,
            count(*) filter (where c.started_at is null)::integer as unsure
       from sluice.jobs c join sluice.composites p on p.job_id = c.parent_id and p.window_size is not null`,
  )
  const { released } = checker.trees.seen
  expect(released).toBeGreaterThanOrEqual(through!.started)
  expect(released).toBeLessThanOrEqual(through!.started + through!.unsure)
})

function outer(inner: string, concurrency: number) {
  return {
    steps: {
      fan: {
        workflow: inner,
        with_items: '${{ input.items }}',
        concurrency,
        with: { items: '${{ item }}' },
        strategy: 'ignore',
      },
    },
  }
}
