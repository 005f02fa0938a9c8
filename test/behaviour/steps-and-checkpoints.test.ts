import { expect, test } from 'vitest'
import { fail, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'

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

test('whoever lost the lease can commit neither step nor checkpoint nor progress', async () => {
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
