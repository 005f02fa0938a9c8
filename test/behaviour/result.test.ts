import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { expect, test } from 'vitest'
import { Database, type Queryable } from '../../src/db/database.ts'
import { Listener } from '../../src/db/listener.ts'
import { ResultWaiter } from '../../src/engine/submit/result-waiter.ts'
import { fail, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

test('returns the results of 10,000 jobs to their callers', async () => {
  const square = task({ name: 'square', run: (n: number) => n * n })
  const app = await apps.open({ tasks: [square], lanes: { wide: { slots: 200, tasks: ['square'] } } })
  const jobs = await app.submitMany(
    square,
    Array.from({ length: 10_000 }, (_, n) => n),
  )
  const waiting = Promise.all(jobs.map((job) => job.result()))
  await app.work({ capacity: 200 })

  expect(await waiting).toEqual(Array.from({ length: 10_000 }, (_, n) => n * n))
})

test('10,000 waiters share one poll on one connection', async () => {
  const never = task({ name: 'never', run: (_: number) => null })
  const app = await apps.open({ tasks: [never] })
  const jobs = await app.submitMany(
    never,
    Array.from({ length: 10_000 }, (_, n) => n),
  )
  const db = new Database({ url: database.url, maxConnections: 4, applicationName: 'counted' })
  const asked: string[] = []
  let under = 0
  let most = 0
  const counted: Queryable = {
    async run(statement, values) {
      asked.push(statement.name)
      most = Math.max(most, ++under)
      return db.run<never>(statement, values).finally(() => under--)
    },
  }
  const listener = new Listener(database.url)
  const waiter = new ResultWaiter(counted, listener, randomUUID())
  try {
    const waits = Promise.all(jobs.map((job) => waiter.wait(job.id)))
    await until(() => asked.filter((name) => name === 'load_endings').length >= 3, 'three polls')
    expect(asked.length).toBeLessThan(10)
    await database.sql(
      `update sluice.jobs set state = 'completed', finished_at = now(), result = input where task = 'never'`,
    )
    waiter.nudge()

    expect((await waits).map((job) => job.result)).toEqual(Array.from({ length: 10_000 }, (_, n) => n))
    expect(most).toBe(1)
    expect(asked.length).toBeLessThan(100)
  } finally {
    waiter.close()
    await listener.stop()
    await db.close()
  }
})

test('a worker that ends a job sends a hint while somebody waits, and none when nobody does', async () => {
  const quick = task({ name: 'quick', run: (n: number) => n })
  const app = await apps.open({ tasks: [quick] })
  await app.work()
  const hints: string[] = []
  const client = new pg.Client(database.directUrl)
  client.on('notification', (message) => hints.push(message.payload ?? ''))
  await client.connect()
  try {
    await client.query('listen sluice')
    await database.sql('delete from sluice.waiters')
    const unheard = await app.submit(quick, 1)
    await until(async () => (await app.getJob(unheard.id)).status === 'completed', 'the first to end')
    await client.query('select 1')
    expect(hints).not.toContain('done')

    // Another program waits: it is told, though it runs nothing.
    const other = await apps.open({})
    const waiting = other.job(unheard.id).result()
    expect(await waiting).toBe(1)
    const gate = await app.submit(quick, 2, { runAt: 300 })
    expect(await other.job(gate.id).result()).toBe(2)
    await until(() => hints.includes('done'), 'the hint')
  } finally {
    await client.end()
  }
})

test('a job that failed or was cancelled rejects with its code, its error and its id', async () => {
  const breaks = task({
    name: 'breaks',
    run: (): number => {
      throw fail('the disk is full')
    },
  })
  const app = await apps.open({ tasks: [breaks] })
  const cancelled = await app.submit(breaks, undefined)
  await app.cancel(cancelled.id, 'not now')
  const failed = await app.submit(breaks, undefined)
  await app.work()

  await expect(failed.result()).rejects.toMatchObject({
    name: 'JobFailedError',
    code: 'JOB_FAILED',
    error: 'the disk is full',
    details: { jobId: failed.id },
  })
  await expect(cancelled.result()).rejects.toMatchObject({
    code: 'JOB_CANCELLED',
    error: 'cancelled: not now',
    message: `job ${cancelled.id} (breaks) was cancelled: not now. For details, run: sluice show ${cancelled.id}`,
  })
  // Asking again, and twice at once, gives the same.
  await expect(Promise.all([failed.result(), app.job(failed.id).result()])).rejects.toMatchObject({
    code: 'JOB_FAILED',
  })
})

test('waiting for a result inside a running task is refused: it would hold its slot meanwhile', async () => {
  const inner = task({ name: 'inner', run: (n: number) => n + 1 })
  const refusals: unknown[] = []
  const outer = task({
    name: 'outer',
    run: async (how: string, ctx) => {
      const job = await app.submit(inner, 1)
      const wait = () => (how === 'by id' ? app.job(job.id) : job).result()
      try {
        if (how === 'in a step') await ctx.step('s', wait)
        else if (how === 'in a timer')
          await new Promise((resolve, reject) => setImmediate(() => wait().then(resolve, reject)))
        else await wait()
      } catch (error) {
        refusals.push(error)
      }
      return job.id
    },
  })
  const app = await apps.open({ tasks: [inner, outer] })
  await app.work()

  for (const how of ['directly', 'by id', 'in a step', 'in a timer']) {
    const job = await app.submit(outer, how)
    const innerId = await job.result()
    expect(refusals.pop()).toMatchObject({
      code: 'WOULD_DEADLOCK',
      message: expect.stringMatching(
        /^job \d+ would hold its slot while it waits for job \d+; make both steps of a workflow/,
      ),
      details: { jobId: job.id, waitsFor: innerId },
    })
    // The job it submitted is an ordinary one, and outside of a task its result may be awaited.
    expect(await app.job(innerId).result()).toBe(2)
  }
})

test('a job that is deleted or never was rejects within a moment', async () => {
  const idle = task({ name: 'idle', run: (_: number) => null })
  const app = await apps.open({ tasks: [idle] })
  const job = await app.submit(idle, 1)
  const waits = Promise.allSettled([job.result(), app.job('9223372036854775807').result()])
  await database.sql('delete from sluice.jobs where id = $1', [job.id])

  expect(await waits).toMatchObject([
    { reason: { code: 'JOB_NOT_FOUND', details: { jobId: job.id } } },
    { reason: { code: 'JOB_NOT_FOUND', details: { jobId: '9223372036854775807' } } },
  ])
})

test('a job whose transaction is still open is waited for', async () => {
  const late = task({ name: 'late', run: (n: number) => n })
  const app = await apps.open({ tasks: [late] })
  await app.work()
  const client = new pg.Client(database.url)
  await client.connect()
  try {
    await client.query('begin')
    const job = await app.submit(late, 5, { transaction: client })
    const waiting = job.result()
    await app.submit(late, 6).then((other) => other.result())
    await client.query('commit')
    expect(await waiting).toBe(5)
  } finally {
    await client.end()
  }
})

test('closing rejects those who wait, and nobody can wait afterwards', async () => {
  const gate = new Gate()
  const held = task({ name: 'held', run: () => gate.pass() })
  const worker = await apps.open({ tasks: [held] })
  await worker.work()
  const app = await apps.open({ tasks: [held] })
  const job = await app.submit(held, undefined)
  const waiting = job.result()
  const refused = expect(waiting).rejects.toMatchObject({ code: 'CLOSED' })
  await gate.arrived()
  await app.close()

  await refused
  await expect(job.result()).rejects.toMatchObject({ code: 'CLOSED' })
  gate.open()
  expect(await worker.job(job.id).result()).toBeNull()
})

test('a caller may stop waiting after a timeout or by a signal; the job continues, and others still wait for it', async () => {
  const gate = new Gate()
  const slow = task({ name: 'slow', run: (n: number) => gate.pass().then(() => n) })
  const app = await apps.open({ tasks: [slow] })
  await app.work()
  const job = await app.submit(slow, 7)
  const patient = job.result({ timeout: '1m', signal: new AbortController().signal })

  await expect(job.result({ timeout: 50 })).rejects.toMatchObject({
    code: 'RESULT_TIMEOUT',
    message: `job ${job.id} did not end within 50ms; it continues`,
    details: { jobId: job.id, timeoutMs: 50 },
  })
  const controller = new AbortController()
  const stopped = job.result({ signal: controller.signal })
  const reason = new Error('the user left')
  controller.abort(reason)
  await expect(stopped).rejects.toBe(reason)
  await expect(job.result({ signal: controller.signal })).rejects.toBe(reason)

  gate.open()
  expect(await patient).toBe(7)
  expect(await job.result({ timeout: '1m' })).toBe(7)
})

test('a time limit or a signal that cannot work is refused', async () => {
  const app = await apps.open()
  const job = app.job('1')
  for (const [options, message] of [
    [{ timeout: 0 }, 'timeout: 0 must be from 1ms to 24d'],
    [{ timeout: '25d' }, 'timeout: "25d" must be from 1ms to 24d'],
    [{ timeout: 'soon' }, 'timeout: "soon" is not a duration'],
    [{ signal: {} }, 'signal: an object must be an AbortSignal'],
    [{ timeuot: 5 }, 'options: unknown option "timeuot"; did you mean timeout?'],
    [null, 'options: null must be an object with some of timeout, signal'],
  ] as const) {
    await expect(job.result(options as never)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    })
  }
})
