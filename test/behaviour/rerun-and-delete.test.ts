import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'

const database = useDatabase()
const apps = useApps(database)

test('a failed job runs again where it stopped: steps and checkpoint kept, failures from zero, history kept', async () => {
  let broken = true
  const ran: string[] = []
  const flaky = task({
    name: 'flaky',
    retry: { attempts: 2, delay: 0 },
    run: async (_: unknown, ctx) => {
      await ctx.step('expensive', () => void ran.push('expensive'))
      const seen = await ctx.checkpoint.get()
      await ctx.checkpoint.set(ctx.attempt)
      if (broken) throw new Error('not yet')
      return seen
    },
  })
  const app = await apps.open({ tasks: [flaky] })
  await app.work()
  const job = await app.submit(flaky, null, { deadline: '1h' })
  await expect(job.result()).rejects.toMatchObject({ code: 'JOB_FAILED' })
  const first = await app.getJob(job.id)
  broken = false

  await app.rerun(job.id)

  expect(await job.result()).toBe(2)
  const again = await app.getJob(job.id)
  expect(again).toMatchObject({ status: 'completed', attempt: 3, failures: 0, error: null })
  expect(again.submittedAt).toEqual(first.submittedAt)
  expect(ran).toEqual(['expensive'])
  expect(
    (await app.listAttempts(job.id)).map(({ attempt, ending, error }) => [attempt, ending, error]),
  ).toEqual([
    [1, 'failed', 'not yet'],
    [2, 'rerun', 'failed: not yet'],
    [3, 'completed', null],
  ])
})

test('a completed job runs again from the beginning', async () => {
  let runs = 0
  const counts = task({
    name: 'counts',
    run: async (_: unknown, ctx) => {
      const before = await ctx.checkpoint.get()
      await ctx.checkpoint.set('done')
      return { before: before ?? null, n: await ctx.step('count', () => ++runs) }
    },
  })
  const app = await apps.open({ tasks: [counts] })
  await app.work()
  const job = await app.submit(counts, null)
  expect(await job.result()).toEqual({ before: null, n: 1 })

  await app.rerun(job.id)

  await expect.poll(async () => (await app.getJob(job.id)).attempt).toBe(2)
  expect(await job.result()).toEqual({ before: null, n: 2 })
})

test('a cancelled job can run again, also one that never ran', async () => {
  const simple = task({ name: 'simple', run: (n: number) => n })
  const app = await apps.open({ tasks: [simple] })
  const job = await app.submit(simple, 7)
  await app.cancel(job.id)
  await app.rerun(job.id)
  expect(await app.getJob(job.id)).toMatchObject({ status: 'queued', error: null, cancelling: false })
  await app.work()

  expect(await job.result()).toBe(7)
})

test('only a finished job can run again, and only while its key is free', async () => {
  const keyed = task({ name: 'keyed', run: (n: number) => n })
  const app = await apps.open({ tasks: [keyed] })
  const first = await app.submit(keyed, 1, { key: 'k' })
  await expect(app.rerun(first.id)).rejects.toMatchObject({
    code: 'ILLEGAL_TRANSITION',
    message: `job ${first.id} is queued and cannot be run again: only a finished job can be`,
  })
  await app.cancel(first.id)
  const second = await app.submit(keyed, 2, { key: 'k' })

  await expect(app.rerun(first.id)).rejects.toMatchObject({ code: 'KEY_CONFLICT' })
  await app.cancel(second.id)
  await app.rerun(first.id)
  await expect(app.rerun('31337')).rejects.toMatchObject({
    code: 'JOB_NOT_FOUND',
    // Which database, and nothing that opens it.
    message: expect.stringMatching(
      new RegExp(`^job 31337 does not exist in database ${database.name} on [^@]+$`),
    ),
  })
})

test('two reruns at once make one', async () => {
  const simple = task({ name: 'twice', run: (n: number) => n })
  const app = await apps.open({ tasks: [simple] })
  const job = await app.submit(simple, 7)
  await app.cancel(job.id)

  const answers = await Promise.allSettled([app.rerun(job.id), app.rerun(job.id), app.rerun(job.id)])

  expect(answers.filter((answer) => answer.status === 'fulfilled')).toHaveLength(1)
})

test('a finished job is deleted with all its traces; one that has not finished is refused', async () => {
  const gate = new Gate()
  const traces = task({
    name: 'traces',
    retry: { delay: 0 },
    run: async (wait: boolean, ctx) => {
      ctx.log.info('here')
      ctx.progress(0.5)
      await ctx.step('s', () => 1)
      await ctx.checkpoint.set(2)
      if (ctx.attempt === 1) throw new Error('leaves an attempt')
      if (wait) await gate.pass()
    },
  })
  const app = await apps.open({ tasks: [traces] })
  await app.work({ capacity: 2 })
  const [done, running] = [await app.submit(traces, false), await app.submit(traces, true)]
  await done.result()
  await gate.arrived()
  const queued = await app.submit(traces, false, { runAt: '1h' })

  await app.remove(done.id)

  await expect(app.getJob(done.id)).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
  for (const table of ['logs', 'steps', 'notes', 'attempts']) {
    expect(await database.sql(`select 1 from sluice.${table} where job_id = $1`, [done.id]), table).toEqual(
      [],
    )
  }
  for (const [job, status] of [
    [running, 'running'],
    [queued, 'queued'],
  ] as const) {
    await expect(app.remove(job.id)).rejects.toMatchObject({
      code: 'ILLEGAL_TRANSITION',
      message: `job ${job.id} is ${status} and cannot be deleted: only a finished job can be; cancel it first`,
    })
  }
  await expect(app.remove(done.id)).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
  gate.open()
  await running.result()
})
