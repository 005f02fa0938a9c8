import { expect, onTestFinished, test } from 'vitest'
import { fail, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { type Fault, startFaultProxy } from '../support/fault-proxy.ts'
import { Gate } from '../support/gate.ts'
import { worksThroughServers } from '../support/through-server.ts'

const database = useDatabase()
const apps = useApps(database)
const soon = { attempts: 3, delay: 0 } as const

test('a step is committed once, and later attempts get its result without running it', async () => {
  const runs: string[] = []
  const pipeline = task({
    name: 'pipeline',
    retry: soon,
    run: async (_: unknown, ctx) => {
      const count = async (name: string, value: unknown) => {
        runs.push(`${name}@${ctx.attempt}`)
        return value
      }
      const fetched = await ctx.step('fetch', () => count('fetch', { rows: 3, when: new Date(0) }))
      const nothing = await ctx.step('nothing', () => count('nothing', undefined))
      if (ctx.attempt < 3) throw new Error(`attempt ${ctx.attempt} breaks`)
      return { fetched, nothing, sent: await ctx.step('send', () => count('send', true)) }
    },
  })
  const app = await apps.open({ tasks: [pipeline] })
  await app.work()

  const job = await app.submit(pipeline, null)

  expect(await job.result()).toEqual({
    fetched: { rows: 3, when: '1970-01-01T00:00:00.000Z' },
    nothing: null,
    sent: true,
  })
  expect(runs).toEqual(['fetch@1', 'nothing@1', 'send@3'])
})

test('a step that throws is not committed and runs again', async () => {
  let runs = 0
  const shaky = task({
    name: 'shaky',
    retry: soon,
    run: (_: unknown, ctx) =>
      ctx.step('s', () => {
        if (++runs < 3) throw new Error('not yet')
        return runs
      }),
  })
  const app = await apps.open({ tasks: [shaky] })
  await app.work()

  expect(await app.submit(shaky, null).then((job) => job.result())).toBe(3)
})

test('two steps of one name at the same time have one result', async () => {
  const both = task({
    name: 'both',
    run: async (_: unknown, ctx) => {
      const gate = new Gate()
      const twins = ['first', 'second'].map((who) => ctx.step('same', () => gate.pass().then(() => who)))
      await gate.arrived(2)
      gate.open()
      return Promise.all(twins)
    },
  })
  const app = await apps.open({ tasks: [both] })
  await app.work()

  for (let i = 0; i < 5; i++) {
    const [one, two] = await app.submit(both, null).then((job) => job.result())
    expect(one).toBe(two)
    expect(['first', 'second']).toContain(one)
  }
})

test('after a failure, the next job of the same task, key and input reuses the steps', async () => {
  const runs: string[] = []
  let broken = true
  const build = task({
    name: 'build',
    retry: { attempts: 1 },
    run: async (input: unknown, ctx) => {
      const compiled = await ctx.step('compile', () => {
        runs.push(`compile ${JSON.stringify(input)} for ${ctx.job.key}`)
        return { by: ctx.job.id }
      })
      if (broken) throw new Error('no room to link')
      return compiled
    },
  })
  const app = await apps.open({ tasks: [build] })
  await app.work()

  for (const input of [{ target: 'a' }, null]) {
    broken = true
    runs.length = 0
    const key = `build ${JSON.stringify(input)}`
    const first = await app.submit(build, input, { key })
    await expect(first.result()).rejects.toMatchObject({ code: 'JOB_FAILED' })
    broken = false

    const second = await app.submit(build, input, { key })
    expect(await second.result(), 'the same task, key and input').toEqual({ by: first.id })
    expect(runs).toHaveLength(1)

    for (const [other, otherKey] of [
      [{ target: 'b' }, key],
      [input, `${key} 2`],
      [input, undefined],
    ] as const) {
      const job = await app.submit(build, other, otherKey === undefined ? {} : { key: otherKey })
      expect(await job.result(), 'another input, another key, no key').toEqual({ by: job.id })
    }
    expect(runs).toHaveLength(4)
    // The last one succeeded: what it did is not reused by a new run.
    const fresh = await app.submit(build, { target: 'b' }, { key })
    expect(await fresh.result()).toEqual({ by: fresh.id })
  }
})

test('a checkpoint is there for the next attempt, and undefined before the first', async () => {
  const seen: unknown[] = []
  const crawl = task({
    name: 'crawl',
    retry: soon,
    run: async (_: unknown, ctx) => {
      const at = (await ctx.checkpoint.get<number>()) ?? 0
      seen.push(await ctx.checkpoint.get())
      await ctx.checkpoint.set(at + 10)
      if (ctx.attempt < 3) throw new Error('again')
      return ctx.checkpoint.get()
    },
  })
  const app = await apps.open({ tasks: [crawl] })
  await app.work()
  const job = await app.submit(crawl, null)

  expect(await job.result()).toBe(30)
  expect(seen).toEqual([undefined, 10, 20])
  expect((await app.getJob(job.id)).checkpoint).toBe(30)
})

test('a checkpoint and a progress of one job do not undo each other', async () => {
  const both = task({
    name: 'notes',
    run: async (_: unknown, ctx) => {
      ctx.progress(0.3, 'before')
      await ctx.checkpoint.set({ page: 3 })
      ctx.progress(0.6, 'after')
    },
  })
  const app = await apps.open({ tasks: [both] })
  await app.work()
  const job = await app.submit(both, null)
  await job.result()

  const view = await app.getJob(job.id)
  expect(view).toMatchObject({ message: 'after', checkpoint: { page: 3 } })
  expect(view.progress).toBeCloseTo(0.6)
})

test('a worker that lost the lease can commit neither step nor checkpoint nor progress', async () => {
  const gate = new Gate()
  const refusals: unknown[] = []
  const stale = task({
    name: 'stale',
    run: async (_: unknown, ctx) => {
      if (ctx.attempt > 1) return 'the second attempt'
      const late = [
        () => ctx.step('late', async () => gate.pass()),
        () => gate.pass().then(() => ctx.checkpoint.set('late')),
      ]
      refusals.push(...(await Promise.all(late.map((write) => write().catch((error: unknown) => error)))))
      ctx.progress(0.9, 'late')
      throw fail('late')
    },
  })
  const app = await apps.open({ tasks: [stale] })
  await app.work({ capacity: 2 })
  const job = await app.submit(stale, null)
  await gate.arrived(2)
  // As a recovery does it: the attempt belongs to somebody else now.
  await database.sql(
    `update sluice.jobs set attempt = attempt + 1, worker_id = worker_id + 1000 where id = $1`,
    [job.id],
  )
  gate.open()
  await expect.poll(() => refusals).toHaveLength(2)

  for (const refusal of refusals) expect(refusal).toMatchObject({ code: 'LEASE_LOST' })
  expect(await database.sql('select 1 from sluice.steps where job_id = $1', [job.id])).toEqual([])
  expect(await app.getJob(job.id)).toMatchObject({ status: 'running', checkpoint: null, progress: null })
  // Give it back to somebody who exists.
  await database.sql(
    `update sluice.jobs set state = 'ready', worker_id = null where id = $1 returning pg_notify('sluice', 'ready')`,
    [job.id],
  )
  expect(await job.result()).toBe('the second attempt')
})

const TRACES = ['load_step', 'save_step', 'load_checkpoint', 'save_checkpoint']

test('steps and checkpoints outlast a database that is away, whether it had heard them or not', async () => {
  const faults: readonly Fault[] = [
    { when: 'before', how: 'reset' },
    { when: 'after', how: 'reset' },
    { when: 'before', how: '53300' },
    { when: 'after', how: '57P01' },
  ]
  const left = new Map(TRACES.map((name) => [name, [...faults]]))
  const proxy = await startFaultProxy(database.directUrl, ({ statement }) => left.get(statement)?.shift())
  onTestFinished(() => proxy.close())
  let runs = 0
  const long = task({
    name: 'outlasts',
    retry: { attempts: 1 },
    run: async (_: unknown, ctx) => {
      const before = await ctx.checkpoint.get()
      const made = await ctx.step('once', () => ++runs)
      await ctx.checkpoint.set({ made })
      return { before, made, after: await ctx.checkpoint.get() }
    },
  })
  const app = await apps.open({ database: proxy.url, tasks: [long] })
  await app.work()

  const job = await app.submit(long, null)

  expect(await job.result()).toEqual({ made: 1, after: { made: 1 } })
  expect([...left.values()].flat()).toEqual([])
  expect(await app.getJob(job.id)).toMatchObject({ attempt: 1, failures: 0, losses: 0 })
  await app.close()
})

test('a checkpoint that cannot be stored before the attempt is stopped fails, and says why', async () => {
  const proxy = await startFaultProxy(database.directUrl, ({ statement }) =>
    statement === 'save_checkpoint' ? { when: 'before', how: 'reset' } : undefined,
  )
  onTestFinished(() => proxy.close())
  const gate = new Gate()
  let thrown: unknown
  const stuck = task({
    name: 'gives-up',
    run: async (_: unknown, ctx) => {
      const stored = ctx.checkpoint.set(1).catch((error: unknown) => {
        thrown = error
      })
      await gate.pass()
      await stored
    },
  })
  const app = await apps.open({ database: proxy.url, tasks: [stuck] })
  await app.work()
  const job = await app.submit(stuck, null)
  await gate.arrived(1)
  gate.open()
  await app.cancel(job.id)

  await expect(job.result()).rejects.toMatchObject({ code: 'JOB_CANCELLED' })
  expect(thrown).toMatchObject({
    code: worksThroughServers() ? 'SERVER_UNAVAILABLE' : 'DATABASE_UNAVAILABLE',
    message: expect.stringMatching(
      /^could not store the checkpoint before the attempt was stopped \(tries: \d+\): /,
    ),
  })
  await app.close()
})
