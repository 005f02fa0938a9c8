import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { Listener } from '../../src/db/listener.ts'
import { type Sluice, task } from '../../src/index.ts'
import { DatabaseSource } from '../../src/worker/sources/database.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { Gate } from '../support/gate.ts'
import { isCycle } from '../support/request-proxy.ts'
import { enableWithoutHint } from '../support/state/lanes.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const database = useDatabase()
const apps = useApps(database)
useCommitChecker(database)

// A trigger sees every claim, also one that lives for a millisecond, and every job that comes back.
beforeAll(async () => {
  await database.sql('create table public.assigned_jobs (id bigint)')
  await database.sql('create index on public.assigned_jobs (id)')
  await database.sql('create table public.returned_jobs (id bigint)')
  await database.sql(`create function public.note_assigned() returns trigger language plpgsql as $$
    begin insert into public.assigned_jobs select unnest(new.assigned); return null; end $$`)
  await database.sql(`create trigger note_assigned after insert on sluice.claims for each row
    when (new.assigned is not null) execute function public.note_assigned()`)
  await database.sql(`create function public.note_returned() returns trigger language plpgsql as $$
    begin
      insert into public.returned_jobs select new.id where exists (select 1 from public.assigned_jobs a where a.id = new.id);
      return null;
    end $$`)
  await database.sql(`create trigger note_returned after insert on sluice.queue for each row
    execute function public.note_returned()`)
})
beforeEach(() => database.sql('truncate public.assigned_jobs, public.returned_jobs').then(() => undefined))

/** How many jobs have been assigned in this test. */
async function everAssigned(): Promise<number> {
  const [row] = await database.sql<{ n: number }>('select count(*)::integer as n from public.assigned_jobs')
  return row!.n
}

/** Jobs that a worker has and has not started, as the database knows. */
async function assigned(): Promise<string[]> {
  const rows = await database.sql<{ id: string }>('select id from sluice.claimed where assigned order by id')
  return rows.map(({ id }) => id)
}

const someAssigned = () => until(async () => (await everAssigned()) > 0, 'jobs to be assigned')
const noneAssigned = () => until(async () => (await assigned()).length === 0, 'none to be assigned')

/**
 * A lane with two slots. Its jobs end at once, until the worker has been measured; then two jobs keep both slots, and others are
 * assigned behind them.
 */
async function busyLane(options: { readonly prefetch?: number | 'off' } = {}) {
  const started: number[] = []
  const closed = new Gate()
  const act = task({
    name: 'act',
    lane: 'narrow',
    async run({ n, waits }: { n: number; waits?: boolean }) {
      started.push(n)
      if (waits === true) await closed.pass()
      return n
    },
  })
  const app = await apps.open({ tasks: [act], lanes: { narrow: { slots: 2, ...options } } })
  const submit = (from: number, to: number) =>
    app.submitMany(
      act,
      Array.from({ length: to - from }, (_, i) => ({ n: from + i })),
    )
  const hold = () =>
    app.submitMany(act, [
      { n: -1, waits: true },
      { n: -2, waits: true },
    ])
  return { app, act, started, closed, submit, hold }
}

/** Measures the lane, and leaves jobs assigned behind two that wait. */
async function assignedBehind(lane: Awaited<ReturnType<typeof busyLane>>): Promise<string[]> {
  await lane.submit(0, 300)
  await lane.hold()
  const rest = await lane.submit(300, 340)
  await lane.app.work({ capacity: 2 })
  await someAssigned()
  await until(() => lane.started.includes(-1) && lane.started.includes(-2), 'both slots to be taken')
  return rest.map(({ id }) => id)
}

/** From now on no time passes for the worker: it hands nothing back because that has waited for too long. @returns what lets time pass again. */
function stopTime(): () => void {
  const spy = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
  onTestFinished(() => spy.mockRestore())
  return () => spy.mockRestore()
}

async function finished(app: Sluice, ids: readonly string[]): Promise<void> {
  for (const id of ids) await app.job(id).result()
}

test('a worker is assigned short jobs ahead of its slots and never runs more than those', async () => {
  let running = 0
  let most = 0
  const act = task({
    name: 'act',
    lane: 'narrow',
    async run() {
      most = Math.max(most, ++running)
      await new Promise((resolve) => setTimeout(resolve, 2))
      running--
    },
  })
  const app = await apps.open({ tasks: [act], lanes: { narrow: { slots: 4 } } })
  const jobs = await app.submitMany(act, Array(600).fill(undefined))
  await app.work({ capacity: 8 })
  await someAssigned()
  await finished(
    app,
    jobs.map(({ id }) => id),
  )
  expect(most).toBe(4)
  expect(await database.sql(`select distinct attempt, losses from sluice.jobs where task = 'act'`)).toEqual([
    { attempt: 1, losses: 0 },
  ])
})

test('what has not started within 100 ms goes back, and runs later as if nothing had happened', async () => {
  const lane = await busyLane()
  const rest = await assignedBehind(lane)
  await noneAssigned()
  const back = await database.sql<{ n: number }>(
    `select count(*)::integer as n from sluice.queue where id = any ($1) and attempt = 0 and state = 'ready'`,
    [rest],
  )
  expect(back[0]!.n).toBeGreaterThan(0)
  const returned = 'select 1 from public.returned_jobs where id = any ($1)'
  expect((await database.sql(returned, [rest])).length).toBeGreaterThan(0)
  lane.closed.open()
  await finished(lane.app, rest)
  expect(lane.started.filter((n) => n >= 300)).toHaveLength(40)
  expect(
    await database.sql('select distinct attempt, losses from sluice.jobs where id = any ($1)', [rest]),
  ).toEqual([{ attempt: 1, losses: 0 }])
})

test('what the heartbeat thread took back from a blocked loop is not reported as started, whether or not a cycle was under way', async () => {
  // The worker hears of it neither from the database, because the thread fails to hand it back there, nor from a cycle.
  let cycledAt = 0
  let isHandedBack = false
  const proxy = await startFaultProxy(database.directUrl, (request) => {
    if (isCycle(request)) cycledAt = performance.now()
    if (request.statement !== 'hand_back') return undefined
    isHandedBack = true
    return { when: 'before', how: '55P03' }
  })
  onTestFinished(() => proxy.close())
  const gates: Gate[] = []
  const act = task({
    name: 'act',
    lane: 'narrow',
    run: async ({ gate }: { gate?: number }) => void (gate !== undefined && (await gates[gate]!.pass())),
  })
  const app = await apps.open({
    database: proxy.url,
    tasks: [act],
    lanes: { narrow: { slots: 2, poll: '100ms' } },
  })
  await app.work({ capacity: 2 })
  const jobs: string[] = []
  const submit = async (inputs: { gate?: number }[]) => {
    jobs.push(...(await app.submitMany(act, inputs)).map(({ id }) => id))
  }
  // Jobs stay assigned for 100 ms, in which a moment without a cycle has to be found.
  const isBlockedInTime = async () => {
    const gate = gates.push(new Gate()) - 1
    await submit([...Array(200).fill({}), { gate }, { gate }, ...Array(40).fill({})])
    await gates[gate]!.arrived(2)
    await until(() => performance.now() - cycledAt > 20, 'the last cycle to be over')
    if ((await assigned()).length === 0) return false
    for (const end = performance.now() + 600; performance.now() < end; );
    // Not if the thread stood still too: then nothing is known about the loop.
    return until(() => isHandedBack, 'the thread to try to hand back', 2000).catch(() => false)
  }
  await until(async () => {
    const found = await isBlockedInTime()
    if (!found) gates.at(-1)!.open()
    return found
  }, 'the loop to be blocked while no cycle is under way')
  await noneAssigned()
  expect(await database.sql('select id from sluice.running')).toHaveLength(2)
  for (const gate of gates) gate.open()
  await finished(app, jobs)
})

test('starts assigned jobs in their order', async () => {
  const lane = await busyLane()
  const jobs = await lane.submit(0, 2000)
  await lane.app.work({ capacity: 2 })
  await someAssigned()
  await finished(
    lane.app,
    jobs.map(({ id }) => id),
  )
  // On a busy machine some may not start within 100 ms. They go back, and others pass them.
  const returned = new Set(
    (await database.sql<{ id: string }>('select id from public.returned_jobs')).map(({ id }) => id),
  )
  const stayed = lane.started.filter((n) => !returned.has(jobs[n]!.id))
  expect(stayed).toEqual([...stayed].sort((a, b) => a - b))
  expect(await everAssigned()).toBeGreaterThan(returned.size)
})

test.for([
  ['the lane says so', { prefetch: 'off' }],
  ['the lane has one slot', { slots: 1 }],
  ['its jobs are spread', { placement: 'spread' }],
] as const)('assigns nothing ahead where %s', async ([, lane]) => {
  const act = task({ name: 'act', lane: 'other', run: () => null })
  const app = await apps.open({ tasks: [act], lanes: { other: { slots: 2, ...lane } } })
  await neverAssigned(app)
})

test('assigns no job ahead whose task fails when it is lost', async () => {
  const act = task({ name: 'act', onLost: 'fail', run: () => null })
  await neverAssigned(await apps.open({ tasks: [act], lanes: { default: { slots: 2 } } }))
})

test('assigns no job ahead that runs in a process of the pool', async () => {
  const module = new URL('../support/fixtures/process-tasks.mjs', import.meta.url).href
  const pid = task({ name: 'pid', execution: 'process', module, run: () => 0 })
  await neverAssigned(await apps.open({ tasks: [pid], lanes: { default: { slots: 2 } } }), 'pid')
})

test('assigns no job ahead that is a program', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-prefetch-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await writeFile(join(folder, 'sluice.yaml'), 'tasks: { act: { exec: ["true"] } }')
  const config = await loadConfig({ folder })
  await neverAssigned(await apps.open({ config, lanes: { default: { slots: 2 } } }), 'act', 60)
})

test('assigns no job ahead that draws from a budget', async () => {
  const act = task({ name: 'act', uses: { seats: 1 }, run: () => null })
  const app = await apps.open({ tasks: [act], budgets: { seats: 100 }, lanes: { default: { slots: 2 } } })
  await neverAssigned(app, 'act', 200)
})

test.for([
  ['assigns no child ahead that holds a place in a window', { concurrency: 50 }, false],
  ['assigns children of a fan-out without a window ahead', {}, true],
] as const)('%s', async ([, window, expected]) => {
  const act = task({ name: 'act', lane: 'narrow', run: () => null })
  const definition = {
    steps: { each: { task: 'act', with_items: '${{ input.items }}', with: { n: '${{ item }}' }, ...window } },
  }
  const app = await apps.open({
    tasks: [act],
    workflows: [{ name: 'fan', definition }],
    lanes: { narrow: { slots: 2 } },
  })
  const run = await app.submit('fan', { items: Array.from({ length: 500 }, (_, n) => n) })
  await app.work({ capacity: 2 })
  await run.result()
  expect((await everAssigned()) > 0).toBe(expected)
})

test.for([
  ['assigns nothing ahead in a lane that another worker waits for slots of', true],
  ['assigns jobs ahead in a lane that another worker serves without waiting', false],
] as const)('%s', async ([, wants]) => {
  const act = task({ name: 'act', lane: 'contended', run: () => null })
  const app = await apps.open({ tasks: [act], lanes: { contended: { slots: 2 } } })
  await database.sql(
    `with w as (
       insert into sluice.workers (name, host, pid, version, capacity, cores, tasks) values ('waits', 'h', 1, '0', 1, 1, '{act}') returning id
     )
     insert into sluice.holdings (worker_id, lane, wants, asks, asked_at)
     select id, 'contended', $1, '{}', case when $1 then clock_timestamp() end from w`,
    [wants],
  )
  await runMany(app)
  expect((await everAssigned()) === 0).toBe(wants)
  await database.sql(
    `delete from sluice.holdings h using sluice.workers w where w.id = h.worker_id and w.name = 'waits'`,
  )
  await database.sql(`delete from sluice.workers where name = 'waits'`)
})

test.for([
  ['assigns jobs ahead of two lanes that share the capacity of the worker', 2],
  ['assigns jobs ahead of two lanes where the worker has capacity left', 20],
] as const)('%s', async ([, capacity]) => {
  const lanes = { [`left-${capacity}`]: { slots: 2 }, [`right-${capacity}`]: { slots: 2 } }
  const tasks = Object.keys(lanes).map((lane) => task({ name: lane, lane, run: () => null }))
  const app = await apps.open({ tasks, lanes })
  for (const { name } of tasks) await app.submitMany(name, Array(10_000).fill(undefined))
  await app.work({ capacity })
  // Seen at once: both lanes have had ready jobs all the time.
  const seen = await until(async () => {
    const [row] = await database.sql<{ ended: number; ready: number; assigned: boolean }>(
      `select (select count(*) from sluice.outcomes o join sluice.job_data d on d.id = o.id where d.task = any ($1))::integer as ended,
              (select count(distinct class_id) from sluice.queue where state = 'ready')::integer as ready,
              exists (select 1 from public.assigned_jobs) as assigned`,
      [Object.keys(lanes)],
    )
    return row!.ended > 300 && row!.assigned && row
  }, 'jobs of both lanes to end, and others to be assigned')
  await app.close()
  await database.sql(
    `update sluice.jobs set state = 'cancelled', finished_at = now(), error = 'x' where state = 'ready'`,
  )
  expect(seen).toMatchObject({ ready: 2 })
})

test('a lane gets its share of the capacity while the jobs of another one are prefetched', async () => {
  const order: string[] = []
  const tasks = ['ample', 'late'].map((name) => task({ name, lane: name, run: () => void order.push(name) }))
  const app = await apps.open({ tasks, lanes: { ample: { slots: 2 }, late: { slots: 2 } } })
  await app.submitMany('ample', Array(40_000).fill(undefined))
  await app.work({ capacity: 2 })
  await until(async () => (await assigned()).length > 20, 'jobs to be assigned')
  const before = order.length
  await app.submitMany('late', Array(50).fill(undefined))
  await until(() => order.length === 40_050, 'all to run')
  expect(before).toBeLessThan(20_000)
  expect(order.lastIndexOf('late')).toBeLessThan(39_000)
})

async function neverAssigned(app: Sluice, name = 'act', count = 500): Promise<void> {
  await runMany(app, name, count)
  expect(await everAssigned()).toBe(0)
}

async function runMany(app: Sluice, name = 'act', count = 500): Promise<void> {
  const jobs = await app.submitMany(name, Array(count).fill(undefined))
  await app.work({ capacity: 4 })
  await finished(
    app,
    jobs.map(({ id }) => id),
  )
}

test('a job that is assigned is cancelled without being started', async () => {
  const lane = await busyLane()
  await lane.submit(0, 300)
  await lane.hold()
  const rest = await lane.submit(300, 340)
  await lane.app.work({ capacity: 2 })
  const [id] = await until(async () => {
    const ids = await assigned()
    return rest.some((job) => job.id === ids.at(-1)) && [ids.at(-1)!]
  }, 'a job of the last ones to be assigned')
  await lane.app.cancel(id)
  const job = await until(async () => {
    const found = await lane.app.getJob(id)
    return found.state === 'cancelled' && found
  }, 'it to be cancelled')
  expect(job.startedAt).toBeNull()
  lane.closed.open()
  const others = rest.map((each) => each.id).filter((each) => each !== id)
  await finished(lane.app, others)
  expect(lane.started.filter((n) => n >= 300)).toHaveLength(39)
})

test.for([
  ['paused', (app: Sluice) => app.setLane('narrow', { enabled: false })],
  ['given fewer slots', (app: Sluice) => app.setLane('narrow', { slots: 1 })],
] as const)('what is assigned in a lane goes back when the lane is %s', async ([, change]) => {
  const lane = await busyLane()
  const stopped = lane.closed.arrived().then(stopTime)
  const rest = await assignedBehind(lane)
  const letTimePass = await stopped
  const behind = await until(async () => {
    const ids = (await assigned()).filter((id) => rest.includes(id))
    return ids.length > 0 && ids
  }, 'jobs to be assigned behind those that keep both slots')
  await change(lane.app)
  // Both slots are kept all the time, so nothing starts instead.
  await noneAssigned()
  const returned = await database.sql<{ id: string }>('select id from public.returned_jobs')
  expect(returned.map(({ id }) => id)).toEqual(expect.arrayContaining(behind))
  letTimePass()
  lane.closed.open()
  await lane.app.setLane('narrow', { enabled: true, slots: 2 })
  await finished(lane.app, rest)
  expect(lane.started.filter((n) => n >= 300)).toHaveLength(40)
})

test('a worker that stops hands back what it has not started', async () => {
  const lane = await busyLane()
  await lane.submit(0, 2000)
  await lane.app.work({ capacity: 2 })
  await someAssigned()
  await lane.app.close()
  expect(await assigned()).toEqual([])
  expect(await database.sql('select distinct losses from sluice.jobs')).toEqual([{ losses: 0 }])
  expect(await database.sql(`select 1 from sluice.queue where attempt > 0 or certain`)).toEqual([])
  expect(new Set(lane.started).size).toBe(lane.started.length)
})

/** Opens a source of jobs that counts recalls. Those that its first heartbeat and earlier hints cause are not counted. */
async function countRecalls(app: Sluice, heartbeatMs: number) {
  let wakes = 0
  let recalls = 0
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  // Also where the rest goes through a pooler, which passes on no hints.
  const listener = new Listener(database.directUrl)
  onTestFinished(() => listener.stop())
  const source = new DatabaseSource({
    db: app.services.db,
    listener,
    heartbeatMs,
    inlineTasks: ['act'],
    identity: {
      ...{ name: 'hears', host: 'h', pid: 1, version: '0', capacity: 2, cores: 2 },
      ...{ tasks: ['act'], labels: {} },
    },
    processTasks: new Set(),
    log,
  })
  const beats = new Gate()
  await source.open({
    answered() {},
    beat: () => void beats.pass(),
    silent() {},
    recall: () => void recalls++,
    wake: () => void wakes++,
  })
  // Hints that were sent before have been heard by then.
  await beats.arrived()
  for (let heard = 0; heard < 2; heard++) {
    const before = wakes
    await database.sql(`select pg_notify('sluice', 'ready')`)
    await until(() => wakes > before, 'the listener to hear')
  }
  recalls = 0
  return {
    async recalled() {
      await until(() => recalls > 0, 'the worker to recall its assigned jobs', 10_000)
      await source.close('the test is over')
    },
  }
}

test.for([
  ['a lane is paused', (app: Sluice) => app.setLane('narrow', { enabled: false })],
  ['a lane gets fewer slots', (app: Sluice) => app.setLane('narrow', { slots: 1 })],
  ['another worker waits for slots', () => database.sql(`select pg_notify('sluice', 'slots')`)],
] as const)('a worker recalls its assigned jobs with the hint that %s', async ([, change]) => {
  const { app } = await busyLane()
  const { recalled } = await countRecalls(app, 600_000)
  await change(app)
  await recalled()
})

test('a worker that misses the hint recalls its assigned jobs with the next heartbeat after a lane was paused', async () => {
  const { app } = await busyLane()
  const { recalled } = await countRecalls(app, 100)
  await enableWithoutHint(database.sql, 'narrow', false)
  await recalled()
})

test.for([
  ['lane', 'busy', 0],
  ['worker that has no room for both lanes', 'aside', 2],
] as const)(
  'urgent jobs start within what ends in 100 ms of the backlog of another task of the same %s',
  async ([, lane, capacity]) => {
    const backlog = 60_000
    let ended = 0
    /** How many jobs had ended when each urgent job started. */
    const starts: number[] = []
    const act = task({ name: 'act', lane: 'busy', run: () => void ended++ })
    // Never measured, since it runs seldom.
    const urgent = task({ name: 'urgent', lane, run: () => void starts.push(ended) })
    const lanes = { busy: { slots: 2 }, aside: { slots: 2 } }
    const app = await apps.open({ tasks: [act, urgent], lanes })
    let submitted = 0
    const submit = async () => {
      submitted += (await app.submitMany(act, Array(backlog).fill(undefined))).length
    }
    await submit()
    await app.work({ capacity })
    await until(() => ended > 2000, 'the backlog to be under way')
    const waits: number[] = []
    const first = { ended, at: performance.now() }
    while (waits.length < 20) {
      if (submitted - ended < backlog / 2) await submit()
      const before = ended
      await app.submit(urgent, undefined, { priority: 10 })
      await until(() => starts.length > waits.length, 'the urgent job to start')
      waits.push(starts.at(-1)! - before)
    }
    expect(ended, 'jobs that have ended, of those in the backlog').toBeLessThan(submitted)
    const perMs = (ended - first.ended) / (performance.now() - first.at)
    await database.sql(
      `update sluice.jobs set state = 'cancelled', finished_at = now(), error = 'x' where state = 'ready'`,
    )
    expect(await everAssigned()).toBeGreaterThan(0)
    const median = waits.toSorted((a, b) => a - b)[waits.length / 2]!
    expect(median, waits.join()).toBeLessThanOrEqual(100 * perMs)
  },
)
