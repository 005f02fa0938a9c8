import { once } from 'node:events'
import pg from 'pg'
import { expect, test } from 'vitest'
import { fail, type JobHandle, type Sluice, snooze, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

test('a waiting job is cancelled at once, whatever it waits for', async () => {
  const idle = task({ name: 'idle', run: (_: unknown) => null })
  const asks = task({ name: 'asks', approval: true, run: (_: unknown) => null })
  const app = await apps.open({ tasks: [idle, asks] })
  const jobs = [
    await app.submit(idle, 1),
    await app.submit(idle, 1, { runAt: '1h' }),
    await app.submit(asks, 1),
    await app.submit(idle, 1, { lane: 'system' }),
  ]

  for (const job of jobs) {
    expect(await app.cancel(job.id, 'no longer needed')).toBe('cancelled')
    const view = await app.getJob(job.id)
    expect(view).toMatchObject({
      status: 'cancelled',
      error: 'cancelled: no longer needed',
      attempt: 0,
      startedAt: null,
      cancelling: false,
    })
    expect(view.finishedAt).not.toBeNull()
    await expect(job.result()).rejects.toMatchObject({
      code: 'JOB_CANCELLED',
      error: 'cancelled: no longer needed',
      details: { jobId: job.id },
    })
  }
  await app.work({ capacity: 4 })
  await app.submit(idle, 2).then((job) => job.result())
  expect((await app.listJobs({ task: 'idle' })).filter((job) => job.attempt > 0)).toHaveLength(1)
})

test('a running job hears its signal, is shown as cancelling until it stops, and its partial state is kept', async () => {
  const heard = new Gate()
  const mayStop = new Gate()
  const long = task({
    name: 'long',
    run: async (_: unknown, ctx) => {
      await ctx.step('first', () => 'done once')
      await ctx.checkpoint.set({ at: 7 })
      ctx.progress(0.5, 'half way')
      ctx.log.info('working')
      await heard.pass()
      if (!ctx.signal.aborted) await once(ctx.signal, 'abort')
      await mayStop.pass(ctx.signal.reason.reason)
      ctx.signal.throwIfAborted()
    },
  })
  const app = await apps.open({ tasks: [long] })
  await app.work()
  const job = await app.submit(long, null)
  await heard.arrived()
  expect(await app.getJob(job.id)).toMatchObject({ status: 'running', cancelling: false })

  expect(await app.cancel(job.id, 'changed my mind')).toBe('running')
  heard.open()
  await mayStop.arrived()
  expect(mayStop.arrivals).toEqual(['cancelled'])
  expect(await app.getJob(job.id)).toMatchObject({ status: 'running', cancelling: true })
  expect((await app.why(job.id)).reason).toMatch(/has been asked to stop/)

  mayStop.open()
  await expect(job.result()).rejects.toMatchObject({ code: 'JOB_CANCELLED' })
  expect(await app.getJob(job.id)).toMatchObject({
    status: 'cancelled',
    cancelling: false,
    error: 'cancelled: changed my mind',
    progress: 0.5,
    message: 'half way',
    checkpoint: { at: 7 },
    attempt: 1,
  })
  expect((await app.readLogs(job.id)).map((line) => line.line)).toEqual(['working'])
  expect(await database.sql('select name, result from sluice.steps where job_id = $1', [job.id])).toEqual([
    { name: 'first', result: 'done once' },
  ])
})

test('step, progress and checkpoint stop a task that does not look at its signal', async () => {
  const started = new Gate()
  const busy = task({
    name: 'busy',
    run: async (how: string, ctx) => {
      await started.pass()
      for (let i = 0; ; i++) {
        if (how === 'step') await ctx.step(`s${i}`, () => i)
        else if (how === 'checkpoint') await ctx.checkpoint.set(i)
        else ctx.progress(0.1)
        await new Promise((resolve) => setImmediate(resolve))
      }
    },
  })
  const app = await apps.open({ tasks: [busy], lanes: { wide: { slots: 3, tasks: ['busy'] } } })
  await app.work({ capacity: 3 })
  const jobs = await app.submitMany(busy, ['step', 'progress', 'checkpoint'])
  await started.arrived(3)
  started.open()

  for (const job of jobs) await app.cancel(job.id)

  for (const job of jobs) {
    await expect(job.result()).rejects.toMatchObject({
      code: 'JOB_CANCELLED',
      error: 'cancelled: on request',
    })
  }
})

test('a task that hears nothing keeps its slot until it ends, and is cancelled then', async () => {
  const gate = new Gate()
  const told = new Gate()
  const deaf = task({
    name: 'deaf',
    run: async (_: unknown, ctx) => {
      ctx.signal.addEventListener('abort', () => void told.pass())
      await gate.pass()
      return 'a result nobody wants'
    },
  })
  const app = await apps.open({ tasks: [deaf], lanes: { single: { slots: 1, tasks: ['deaf'] } } })
  await app.work({ capacity: 2 })
  const first = await app.submit(deaf, null)
  await gate.arrived()
  const second = await app.submit(deaf, null)

  await app.cancel(first.id)
  await told.arrived()
  await until(async () => (await app.why(second.id)).reason.includes('is full'), 'the second to find it full')
  expect(await app.getJob(first.id)).toMatchObject({ status: 'running', cancelling: true })
  expect(gate.arrivals).toHaveLength(1)
  gate.open()

  await expect(first.result()).rejects.toMatchObject({ code: 'JOB_CANCELLED' })
  await second.result()
})

test.each([
  ['throws', () => new Error('broke while stopping')],
  ['wants to snooze', () => snooze(1000)],
])('a cancelled task that %s is cancelled', async (how, thrown) => {
  const gate = new Gate()
  const stubborn = task({
    name: `stubborn-${how.replaceAll(' ', '-')}`,
    run: async (_: unknown, ctx) => {
      await gate.pass()
      if (!ctx.signal.aborted) await once(ctx.signal, 'abort')
      throw thrown()
    },
  })
  const app = await apps.open({ tasks: [stubborn] })
  await app.work()
  const job = await app.submit(stubborn, null)
  await gate.arrived()
  await app.cancel(job.id)
  gate.open()

  await expect(job.result()).rejects.toMatchObject({ code: 'JOB_CANCELLED' })
  expect(await app.getJob(job.id)).toMatchObject({ status: 'cancelled', error: 'cancelled: on request' })
})

test('a failure that the worker reports after a cancel it never heard of does not bring the job back', async () => {
  const gate = new Gate()
  const broken = task({
    name: 'broken',
    run: async (how: string) => {
      await gate.pass()
      throw how === 'snooze' ? snooze(1) : how === 'fail' ? fail('for good') : new Error('try again')
    },
  })
  const app = await apps.open({ tasks: [broken], lanes: { three: { slots: 3, tasks: ['broken'] } } })
  await app.work({ capacity: 3 })
  const [retried, snoozed, failed] = await Promise.all(
    (['retry', 'snooze', 'fail'] as const).map((how) => app.submit(broken, how)),
  )
  await gate.arrived(3)
  // As a cancel does it, without the hint.
  await database.sql(
    `update sluice.jobs set cancel_at = clock_timestamp(), error = 'cancelled: quietly' where task = 'broken'`,
  )
  gate.open()

  await expect(retried!.result()).rejects.toMatchObject({
    code: 'JOB_CANCELLED',
    error: 'cancelled: quietly',
  })
  await expect(snoozed!.result()).rejects.toMatchObject({
    code: 'JOB_CANCELLED',
    error: 'cancelled: quietly',
  })
  await expect(failed!.result()).rejects.toMatchObject({ code: 'JOB_FAILED', error: 'for good' })
})

test('a job cancelled before it is claimed never starts, even when the cancel is still being written', async () => {
  const ran: number[] = []
  const racy = task({ name: 'racy', lane: 'system', run: (n: number) => void ran.push(n) })
  const app = await apps.open({ tasks: [racy] })
  const job = await app.submit(racy, 1)
  const client = new pg.Client(database.url)
  await client.connect()
  try {
    await client.query('begin')
    await client.query(
      `update sluice.jobs set state = 'cancelled', finished_at = now(), error = 'cancelled: first' where id = $1`,
      [job.id],
    )
    await app.work()
    const next = await app.submit(racy, 2)
    await next.result()
    expect(ran).toEqual([2])
    await client.query('commit')
  } finally {
    await client.end()
  }
  await expect(job.result()).rejects.toMatchObject({ code: 'JOB_CANCELLED' })
  await app.submit(racy, 3).then((last) => last.result())
  expect(ran).toEqual([2, 3])
})

test('a result that the worker reports after a cancel it never heard of stands', async () => {
  const gate = new Gate()
  const almost = task({ name: 'almost', run: () => gate.pass().then(() => 'made it') })
  const app = await apps.open({ tasks: [almost] })
  await app.work()
  const job = await app.submit(almost, undefined)
  await gate.arrived()
  await database.sql(
    `update sluice.jobs set cancel_at = clock_timestamp(), error = 'cancelled: quietly' where id = $1`,
    [job.id],
  )
  gate.open()

  expect(await job.result()).toBe('made it')
  expect(await app.getJob(job.id)).toMatchObject({ status: 'completed', cancelling: false, error: null })
})

test('a job that has ended cannot be cancelled, and a second cancel of a running one is harmless', async () => {
  const gate = new Gate()
  const bothCancelled = new Gate()
  const twice = task({
    name: 'twice',
    run: async (_: unknown, ctx) => {
      void gate.pass()
      if (!ctx.signal.aborted) await once(ctx.signal, 'abort')
      await bothCancelled.pass()
    },
  })
  const app = await apps.open({ tasks: [twice] })
  await app.work()
  const job = await app.submit(twice, null)
  await gate.arrived()
  const states = await Promise.all([app.cancel(job.id, 'first'), app.cancel(job.id, 'second')])
  expect(states).toEqual(['running', 'running'])
  bothCancelled.open()
  await expect(job.result()).rejects.toMatchObject({
    error: expect.stringMatching(/^cancelled: (first|second)$/),
  })

  await expect(app.cancel(job.id)).rejects.toMatchObject({
    code: 'ILLEGAL_TRANSITION',
    message: `job ${job.id} is cancelled and cannot be cancelled: only a job that has not ended can be`,
  })
  await expect(app.cancel('9999999')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
  await expect(app.cancel('seven')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
})

test('cancels that race with claims, starts and endings leave each job in one end, and no slot behind', async () => {
  const outcomes = new Map<number, string>()
  const racing = task({
    name: 'racing',
    run: async (n: number, ctx) => {
      outcomes.set(n, 'started')
      for (let turns = n % 5; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve))
      if (!ctx.signal.aborted) outcomes.set(n, 'finished')
      return n
    },
  })
  const app = await apps.open({ tasks: [racing], lanes: { race: { slots: 8, tasks: ['racing'] } } })
  await app.work({ capacity: 8 })
  const jobs = await app.submitMany(
    racing,
    Array.from({ length: 400 }, (_, n) => n),
  )

  await until(() => outcomes.size > 20, 'some to start')

  // From the last one on, so that they meet in the middle.
  const answers = (await Promise.all([...jobs].reverse().map((job) => cancelled(app, job.id)))).reverse()
  const ends = await Promise.all(jobs.map((job) => ended(job)))

  for (const [n, end] of ends.entries()) {
    const answer = answers[n]!
    if (answer === 'cancelled') {
      expect(end, `job ${n}`).toBe('JOB_CANCELLED')
      expect(outcomes.has(n), `job ${n} never started`).toBe(false)
    } else if (answer === 'ILLEGAL_TRANSITION') expect(end, `job ${n}`).toBe(n)
    else expect([n, 'JOB_CANCELLED'], `job ${n}`).toContain(end)
  }
  expect(new Set(answers).size, 'the race must not be one-sided').toBeGreaterThan(1)
})

async function cancelled(app: Sluice, id: string): Promise<string> {
  return app.cancel(id).catch((error: { code: string }) => error.code)
}

async function ended(job: JobHandle): Promise<unknown> {
  return job.result().catch((error: { code: string }) => error.code)
}
