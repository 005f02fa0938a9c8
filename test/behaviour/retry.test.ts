import { expect, test } from 'vitest'
import { fail, retryAt, type Sluice, snooze, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

/** How long the job is to wait, counted from when its last attempt ended. */
async function delayOf(app: Sluice, id: string): Promise<number> {
  const job = await until(async () => {
    const seen = await app.getJob(id)
    return seen.state === 'scheduled' && seen.attempt > 0 && seen
  }, 'the job to back off')
  const attempts = await app.listAttempts(id)
  return job.readyAt.getTime() - attempts.at(-1)!.endedAt!.getTime()
}

/** Ends the wait of a job that backs off. */
async function hurry(id: string): Promise<void> {
  await database.sql(
    `update sluice.jobs set state = 'ready', ready_at = clock_timestamp() where id = $1 and state = 'scheduled'
     returning pg_notify('sluice', 'ready')`,
    [id],
  )
}

test('by default a task is tried three times, the waits grow, and the history tells of each', async () => {
  const breaks = task({
    name: 'breaks',
    retry: { delay: '10s' },
    run: (_: unknown, ctx) => {
      throw new Error(`broke ${ctx.attempt}`)
    },
  })
  const app = await apps.open({ tasks: [breaks] })
  await app.work()
  const job = await app.submit(breaks, null)

  // 10 s and 20 s, of which jitter takes up to half.
  const first = await delayOf(app, job.id)
  expect(first).toBeGreaterThanOrEqual(5000)
  expect(first).toBeLessThanOrEqual(10_000)
  expect((await app.why(job.id)).reason).toMatch(/^it failed \(broke 1\) and will be retried at /)
  await hurry(job.id)
  await until(async () => (await app.getJob(job.id)).failures === 2, 'the second failure')
  const second = await delayOf(app, job.id)
  expect(second).toBeGreaterThanOrEqual(10_000)
  expect(second).toBeLessThanOrEqual(20_000)
  await hurry(job.id)

  await expect(job.result()).rejects.toMatchObject({ code: 'JOB_FAILED', error: 'broke 3' })
  expect(await app.getJob(job.id)).toMatchObject({ status: 'failed', attempt: 3, failures: 3, losses: 0 })
  expect(
    (await app.listAttempts(job.id)).map(({ attempt, ending, error }) => [attempt, ending, error]),
  ).toEqual([
    [1, 'failed', 'broke 1'],
    [2, 'failed', 'broke 2'],
    [3, 'failed', 'broke 3'],
  ])
})

test('fixed backoff waits the same each time, within its jitter, and spreads jobs that failed together', async () => {
  const fixed = task({
    name: 'fixed',
    retry: { attempts: 2, backoff: 'fixed', delay: '1m' },
    run: () => {
      throw new Error('no')
    },
  })
  const app = await apps.open({ tasks: [fixed], lanes: { wide: { slots: 30, tasks: ['fixed'] } } })
  await app.work({ capacity: 30 })
  const jobs = await app.submitMany(fixed, Array.from({ length: 30 }))

  const delays = await Promise.all(jobs.map((job) => delayOf(app, job.id)))

  for (const delay of delays) {
    expect(delay).toBeGreaterThanOrEqual(30_000)
    expect(delay).toBeLessThanOrEqual(60_000)
  }
  expect(Math.max(...delays) - Math.min(...delays)).toBeGreaterThan(5000)
})

test('a longest wait bounds the growth', async () => {
  const slow = task({
    name: 'slow',
    retry: { attempts: 10, delay: '1h', maxDelay: '1h' },
    run: () => {
      throw new Error('no')
    },
  })
  const app = await apps.open({ tasks: [slow] })
  await app.work()
  const job = await app.submit(slow, undefined)
  for (let failures = 1; failures <= 3; failures++) {
    await until(async () => (await app.getJob(job.id)).failures === failures, `failure ${failures}`)
    expect(await delayOf(app, job.id)).toBeLessThanOrEqual(3_600_000)
    await hurry(job.id)
  }
})

test('attempts: 1 means no second try', async () => {
  const once = task({
    name: 'once',
    retry: { attempts: 1 },
    run: () => {
      throw new Error('only try')
    },
  })
  const app = await apps.open({ tasks: [once] })
  await app.work()
  const job = await app.submit(once, undefined)

  await expect(job.result()).rejects.toMatchObject({ error: 'only try' })
  expect(await app.getJob(job.id)).toMatchObject({ attempt: 1, failures: 1 })
})

test('a job that succeeds in the end shows no error', async () => {
  const second = task({
    name: 'second',
    retry: { delay: 0 },
    run: (_: unknown, ctx) => {
      if (ctx.attempt === 1) throw new Error('first try')
      return ctx.attempt
    },
  })
  const app = await apps.open({ tasks: [second] })
  await app.work()
  const job = await app.submit(second, null)

  expect(await job.result()).toBe(2)
  expect(await app.getJob(job.id)).toMatchObject({
    status: 'completed',
    error: null,
    failures: 1,
    attempt: 2,
  })
  expect((await app.listAttempts(job.id)).map(({ ending, error }) => [ending, error])).toEqual([
    ['failed', 'first try'],
    ['completed', null],
  ])
})

test('fail ends the job for good, whatever its retries', async () => {
  const final = task({
    name: 'final',
    retry: { attempts: 100 },
    run: () => {
      throw fail('there is no such file')
    },
  })
  const app = await apps.open({ tasks: [final] })
  await app.work()
  const job = await app.submit(final, undefined)

  await expect(job.result()).rejects.toMatchObject({ error: 'there is no such file' })
  expect(await app.getJob(job.id)).toMatchObject({ attempt: 1, status: 'failed' })
})

test('retryAt names the time, counts as a failure, and is no more than the attempts allow', async () => {
  const polite = task({
    name: 'polite',
    retry: { attempts: 2 },
    run: (_: unknown, ctx) => {
      throw retryAt(ctx.attempt === 1 ? new Date(Date.now() + 600_000) : 1000, 'come back later')
    },
  })
  const app = await apps.open({ tasks: [polite] })
  await app.work()
  const job = await app.submit(polite, null)

  const delay = await delayOf(app, job.id)
  expect(delay).toBeGreaterThan(590_000)
  expect(delay).toBeLessThan(601_000)
  expect(await app.getJob(job.id)).toMatchObject({ failures: 1, error: 'come back later' })
  await hurry(job.id)
  await expect(job.result()).rejects.toMatchObject({ error: 'come back later' })
  expect(await app.getJob(job.id)).toMatchObject({ failures: 2, attempt: 2 })
})

test('snooze burns nothing: a task may snooze more often than it may fail', async () => {
  const patient = task({
    name: 'patient',
    retry: { attempts: 1 },
    run: (_: unknown, ctx) => {
      if (ctx.attempt <= 4) throw snooze(ctx.attempt === 4 ? 900_000 : 0)
      throw new Error('now it counts')
    },
  })
  const app = await apps.open({ tasks: [patient] })
  await app.work()
  const job = await app.submit(patient, null)

  await until(async () => (await app.getJob(job.id)).attempt === 4, 'the fourth attempt')
  const delay = await delayOf(app, job.id)
  expect(delay).toBeGreaterThan(899_000)
  expect(await app.getJob(job.id)).toMatchObject({ failures: 0, losses: 0, error: null })
  expect((await app.why(job.id)).reason).toMatch(/^it is scheduled for /)
  await hurry(job.id)
  await expect(job.result()).rejects.toMatchObject({ error: 'now it counts' })
  expect((await app.listAttempts(job.id)).map((attempt) => attempt.ending)).toEqual([
    'snoozed',
    'snoozed',
    'snoozed',
    'snoozed',
    'failed',
  ])
})

test.each([
  ['snooze', () => snooze(Number.NaN), 'NaN is not a time; use a Date, a duration such as 30s'],
  [
    'snooze',
    () => snooze('tomorrow' as never),
    '"tomorrow" is not a duration; write milliseconds or text such as',
  ],
  [
    'retryAt',
    () => retryAt(new Date('never')),
    'a Date without a time is not a time; use a Date, a duration',
  ],
])('%s refuses a time that is none, so that no job comes back at once for ever', (name, make, message) => {
  expect(make).toThrow(`${name}: ${message}`)
})

test.each([
  [{ attempts: 0 }, 'retry.attempts must be a whole number from 1 to 32767, found 0'],
  [{ attempts: 1.5 }, 'retry.attempts must be a whole number'],
  [
    { delay: 'soon' },
    'retry.delay must be a duration from 0ms up to 36500d, such as 500ms, 15s, 10m, 4h or 7d, found "soon"',
  ],
  [{ maxDelay: -1 }, 'retry.maxDelay must be a duration'],
  [{ backoff: 'linear' as never }, 'retry.backoff must be exponential or fixed, found "linear"'],
])('a task with retry %j is refused', (retry, message) => {
  expect(() => task({ name: 'bad', retry, run: () => null })).toThrow(message)
})
