import pg from 'pg'
import { afterEach, describe, expect, test } from 'vitest'
import { hasCode, retryAt, type Sluice, snooze, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import {
  countScheduled,
  forgetAdmission,
  holdAdmissionLock,
  killWaitingConnections,
  LEDGER_MS,
  readLedger,
  untilLedgerComplete,
} from '../support/state/admission.ts'
import { plantDue } from '../support/state/jobs.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const database = useDatabase()
const commits = useCommitChecker(database)
const apps = useApps(database)
const inAYear = new Date(Date.now() + 365 * 86_400_000)
const nextYear = { runAt: inAYear }

// Their lane is closed: what is due stays in line.
const lane = 'closed'
const reminder = task({ name: 'reminder', lane, run: (_: unknown) => null })
const plain = task({ name: 'plain', lane, run: (_: unknown) => null })
const approved = task({ name: 'approved', lane, approval: true, run: (_: unknown) => null })
const definition = { steps: { one: { task: 'plain' } } }

async function open(limits?: Parameters<Sluice['setAdmission']>[0]): Promise<Sluice> {
  const app = await apps.open({
    tasks: [reminder, plain, approved],
    workflows: [{ name: 'report', definition }],
    lanes: { closed: { enabled: false }, default: { poll: '50ms' } },
  })
  if (limits !== undefined) await app.setAdmission(limits)
  return app
}

afterEach(async () => {
  const app = await apps.open({ publish: false })
  await app.cancelMany({})
  await forgetAdmission(database.sql)
  const { violations } = await commits.catchUp()
  expect(violations).toEqual([])
})

/** How many of many submissions were let in; the others must have been rejected for lack of room. */
async function admitted(attempts: Promise<unknown>[]): Promise<number> {
  const settled = await Promise.allSettled(attempts)
  const rejected = settled.filter((each) => each.status === 'rejected').map(({ reason }) => reason)
  expect(rejected.filter((error) => !hasCode(error, 'ADMISSION_REJECTED') && error.code !== 'SL007')).toEqual(
    [],
  )
  return settled.length - rejected.length
}

async function counts(app: Sluice): Promise<{ active: number | null; scheduled: number | null }> {
  const { active, scheduled } = await app.admission()
  return { active, scheduled }
}

test('1,100 reminders for next year leave room under a ceiling of 3 for jobs that start now', async () => {
  const app = await open({ maxActive: 3 })
  // One by one, so that each is admitted by itself.
  await database.sql(`select sluice.submit('reminder', run_at => $1) from generate_series(1, 1100)`, [
    inAYear,
  ])
  expect((await readLedger(database.sql)).rows).toBeLessThanOrEqual(1001)
  await app.submit('report', null, nextYear)
  expect(await admitted(Array.from({ length: 5 }, () => app.submit(plain, null)))).toBe(3)
  expect(await app.admission()).toMatchObject({
    maxActive: 3,
    active: 3,
    maxScheduled: 100_000,
    scheduled: 1101,
  })
  // Another one for next year is still accepted.
  await app.submit(reminder, null, nextYear)
})

describe('maxScheduled', () => {
  test('rejects exactly what goes beyond it, says how many are scheduled, and when the next one is due', async () => {
    const app = await open({ maxActive: 5, maxScheduled: 3 })
    await app.submit(reminder, 1, { runAt: '30s' })
    await app.submitMany(reminder, [2, 3], nextYear)
    const error = await app.submit(reminder, 4, nextYear).catch((thrown) => thrown)
    expect(error).toMatchObject({
      code: 'ADMISSION_REJECTED',
      status: 429,
      message: expect.stringMatching(
        /^3 of at most 3 jobs are scheduled for later, so one more cannot be admitted; try again in \d+ s$/,
      ),
      details: { maxScheduled: 3, scheduled: 3 },
    })
    expect(error.retryAfter).toBeGreaterThanOrEqual(1)
    expect(error.retryAfter).toBeLessThanOrEqual(30)
    await app.submit(plain, 5)
    await app.submit(reminder, 6, { runAt: new Date(Date.now() - 60_000) })
    expect(await counts(app)).toEqual({ active: 2, scheduled: 3 })
  })

  test('takes a bulk submission whole or not at all', async () => {
    const app = await open({ maxActive: 5, maxScheduled: 5 })
    await app.submitMany(reminder, [1, 2, 3], nextYear)
    const mixed = { each: (n: unknown) => (n === 0 ? {} : nextYear) }
    await expect(app.submitMany(reminder, [0, 4, 5, 6], mixed)).rejects.toMatchObject({
      code: 'ADMISSION_REJECTED',
      details: { maxScheduled: 5, scheduled: 3 },
    })
    expect(await counts(app)).toEqual({ active: 0, scheduled: 3 })
    await app.submitMany(reminder, [0, 4, 5], mixed)
    expect(await counts(app)).toEqual({ active: 1, scheduled: 5 })
  })

  test('is never exceeded by submissions that race from several programs, connections and transactions', async () => {
    const programs = await Promise.all([open({ maxActive: 30, maxScheduled: 40 }), open(), open()])
    const pool = new pg.Pool({ connectionString: database.url, max: 6 })
    const inTransaction = async (app: Sluice) => {
      const client = await pool.connect()
      try {
        await client.query('begin')
        await app.submit(reminder, 't', { ...nextYear, transaction: client })
        await client.query('commit')
      } finally {
        client.release()
      }
    }
    const attempts = Array.from({ length: 30 }, (_, i) => {
      const app = programs[i % 3]!
      return [
        app.submit(reminder, i, nextYear),
        app.submit(plain, i),
        app.submit(reminder, i, { ...nextYear, key: `racing ${i}` }),
        app.submitMany(reminder, [i, i, i], nextYear),
        inTransaction(app),
        pool.query(`select sluice.submit('reminder', run_at => $1)`, [inAYear]),
      ]
    }).flat()
    await admitted(attempts)
    await pool.end()
    // What three bulk jobs left free, single ones fill.
    await admitted(Array.from({ length: 10 }, (_, i) => programs[0].submit(reminder, i, nextYear)))
    expect(await counts(programs[0])).toEqual({ active: 30, scheduled: 40 })
  })

  test('lets single submissions that are merged in as far as each limit has room, whatever their times', async () => {
    const app = await open({ maxActive: 7, maxScheduled: 5 })
    const past = { runAt: new Date(Date.now() - 60_000) }
    const options = [undefined, nextYear, past, { runAt: '1h' }] as const
    const attempts = Array.from({ length: 60 }, (_, i) => app.submit(reminder, i, options[i % 4]))
    expect(await admitted(attempts)).toBe(12)
    expect(await counts(app)).toEqual({ active: 7, scheduled: 5 })
  })

  test('has room again when scheduled jobs are cancelled', async () => {
    const app = await open({ maxActive: 3, maxScheduled: 3 })
    for (let n = 0; n < 3; n++) {
      const jobs = await app.submitMany(reminder, [1, 2, 3], nextYear)
      await expect(app.submit(reminder, 4, nextYear)).rejects.toMatchObject({ details: { scheduled: 3 } })
      for (const { id } of jobs) await app.cancel(id)
    }
    expect(await counts(app)).toEqual({ active: 0, scheduled: 0 })
  })

  test('holds without a ceiling, is lifted by none, and is 100,000 with a ceiling where nobody says', async () => {
    const app = await open({ maxScheduled: 1 })
    expect(await app.admission()).toMatchObject({
      maxActive: null,
      maxScheduled: 1,
      active: null,
      scheduled: 0,
    })
    await app.submit(reminder, 1, nextYear)
    await app.submitMany(plain, [1, 2, 3])
    await expect(app.submit(reminder, 2, nextYear)).rejects.toMatchObject({ code: 'ADMISSION_REJECTED' })
    await app.setAdmission({ maxActive: 3, maxScheduled: null })
    expect(await app.admission()).toMatchObject({ maxScheduled: null, active: 3, scheduled: null })
    await app.submitMany(reminder, Array(10).fill(null), nextYear)
    expect(await app.resetAdmission()).toMatchObject({ maxActive: null, maxScheduled: null, operatorSet: [] })
    expect(await app.setAdmission({ maxActive: 3 })).toMatchObject({ maxScheduled: 100_000, scheduled: 11 })
    // Those that came in while nobody counted are counted.
    await app.setAdmission({ maxScheduled: 11 })
    await expect(app.submit(reminder, 2, nextYear)).rejects.toMatchObject({ details: { scheduled: 11 } })
  })

  test('counts what a transaction stored that began before it and ends after it', async () => {
    const app = await open()
    const client = new pg.Client(database.url)
    await client.connect()
    await client.query('begin')
    await client.query(`select sluice.submit('reminder', run_at => $1)`, [inAYear])
    await app.setAdmission({ maxActive: 2, maxScheduled: 2 })
    await app.submit(reminder, 2, nextYear)
    await client.query('commit')
    await client.end()
    await expect(app.submit(reminder, 3, nextYear)).rejects.toMatchObject({ details: { scheduled: 2 } })
    expect(await counts(app)).toEqual({ active: 0, scheduled: 2 })
  })

  test('comes from the file or code until an operator says otherwise, and again after a reset', async () => {
    const admission = { maxActive: 9, maxScheduled: 7 }
    const app = await apps.open({ tasks: [reminder], lanes: { closed: {} }, admission })
    expect(await app.admission()).toMatchObject({ ...admission, operatorSet: [] })
    await app.setAdmission({ maxScheduled: 8 })
    await apps.open({ tasks: [reminder], lanes: { closed: {} }, admission })
    expect(await app.admission()).toMatchObject({ maxScheduled: 8, operatorSet: ['maxScheduled'] })
    expect(await app.resetAdmission()).toMatchObject({ ...admission, operatorSet: [] })
    await expect(app.setAdmission({ maxScheduled: 0 })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('maxScheduled: 0 must be'),
    })
  })
})

describe('a scheduled job', () => {
  test('is let in above every limit when it is due, and counts from then on', async () => {
    const app = await open({ maxActive: 2, maxQueued: { reminder: 1 } })
    const reminders = await app.submitMany(reminder, [1, 2, 3], nextYear)
    const run = await app.submit('report', null, nextYear)
    const held = await app.submitMany(plain, [1, 2])
    await app.work()
    for (const { id } of [...reminders, run]) await plantDue(database.sql, id)
    await until(async () => (await counts(app)).scheduled === 0, 'the reminders to be due')
    expect(await app.admission()).toMatchObject({ active: 6, queued: { reminder: 3 } })
    await expect(app.submit(plain, 3)).rejects.toMatchObject({ details: { ceiling: 2, active: 6 } })
    await app.setAdmission({ maxActive: 100 })
    await expect(app.submit(reminder, 4)).rejects.toMatchObject({ details: { maxQueued: 1, queued: 3 } })
    await app.setAdmission({ maxActive: 2 })
    for (const { id } of [...reminders, run]) await app.cancel(id)
    await app.cancel(held[0]!.id)
    await until(async () => (await counts(app)).active === 1, 'the workflow to stop')
    expect(await admitted([app.submit(plain, 5), app.submit(plain, 6)])).toBe(1)
  })

  test(
    'is let in with thousands of others, and some of them are enough to reject a submission',
    async () => {
      const app = await open({ maxActive: 1 })
      await app.submitMany(reminder, Array(1500).fill(null), { runAt: '10ms' })
      await app.work()
      await until(async () => (await counts(app)).active === 1500, 'the reminders to be due')
      await untilLedgerComplete(database.sql)
      await expect(app.submit(plain, 1)).rejects.toMatchObject({
        message: expect.stringMatching(
          /^at least 1002 of at most 1 jobs are active, so one more cannot be admitted/,
        ),
        details: { ceiling: 1, active: 1002 },
      })
      await app.setAdmission({ maxActive: 1501 })
      await app.submit(plain, 1)
      await expect(app.submit(plain, 2)).rejects.toMatchObject({ details: { ceiling: 1501, active: 1501 } })
    },
    LEDGER_MS + 60_000,
  )

  test('is let in once when connections die while it waits for the lock', async () => {
    const app = await open({ maxActive: 1 })
    const reminders = await app.submitMany(reminder, [1, 2, 3], nextYear)
    await app.work()
    const release = await holdAdmissionLock(database.directUrl)
    for (const { id } of reminders) await plantDue(database.sql, id)
    await until(async () => (await killWaitingConnections(database.sql)) > 0, 'a promotion to wait')
    await release()
    await until(async () => (await counts(app)).scheduled === 0, 'the reminders to be due')
    expect(await counts(app)).toEqual({ active: 3, scheduled: 0 })
    expect(await readLedger(database.sql)).toMatchObject({ bound: 3 })
    await expect(app.submit(plain, 1)).rejects.toMatchObject({ details: { active: 3 } })
  })

  test('keeps both counts right when it is cancelled and runs again', async () => {
    const app = await open({ maxActive: 2, maxScheduled: 2 })
    const jobs = [await app.submit(reminder, 1, nextYear), await app.submit('report', null, nextYear)]
    for (const { id } of jobs) await app.cancel(id)
    expect(await counts(app)).toEqual({ active: 0, scheduled: 0 })
    const others = await app.submitMany(reminder, [2, 3], nextYear)
    await expect(app.rerun(jobs[0]!.id)).rejects.toMatchObject({ details: { maxScheduled: 2, scheduled: 2 } })
    await expect(app.retry(jobs[1]!.id, { failed: true })).rejects.toMatchObject({
      details: { maxScheduled: 2, scheduled: 2 },
    })
    for (const { id } of others) await app.cancel(id)
    await app.rerun(jobs[0]!.id)
    await app.retry(jobs[1]!.id, { failed: true })
    for (const { id } of jobs) expect((await app.getJob(id)).readyAt).toEqual(inAYear)
    expect(await counts(app)).toEqual({ active: 0, scheduled: 2 })
    expect(await admitted([1, 2, 3].map((n) => app.submit(plain, n)))).toBe(2)
  })

  test('is active while it waits for approval, and scheduled once it is approved, also above maxScheduled', async () => {
    const app = await open({ maxActive: 2, maxScheduled: 1 })
    await app.submit(reminder, 1, nextYear)
    const job = await app.submit(approved, 1, nextYear)
    await app.submit(plain, 1)
    expect(await counts(app)).toEqual({ active: 2, scheduled: 1 })
    await expect(app.submit(plain, 2)).rejects.toMatchObject({ details: { ceiling: 2, active: 2 } })
    await app.approve(job.id)
    expect(await counts(app)).toEqual({ active: 1, scheduled: 2 })
    await app.submit(plain, 2)
    await expect(app.submit(reminder, 2, nextYear)).rejects.toMatchObject({ details: { scheduled: 2 } })
  })
})

test('jobs that wait for a retry, a time they named, or after a snooze stay active', async () => {
  const fails = task({
    name: 'fails',
    retry: { attempts: 3, delay: '1h' },
    run: (_: unknown) => Promise.reject(new Error('no')),
  })
  const retries = task({ name: 'retries', run: (_: unknown) => Promise.reject(retryAt('1h')) })
  const snoozes = task({ name: 'snoozes', run: (_: unknown) => Promise.reject(snooze('1h')) })
  const app = await apps.open({ tasks: [fails, retries, snoozes], lanes: { default: { poll: '50ms' } } })
  await app.setAdmission({ maxActive: 3, maxScheduled: 5 })
  const jobs = [
    await app.submit(fails, null, { runAt: '10ms' }),
    await app.submit(retries, null),
    await app.submit(snoozes, null),
  ]
  await app.work({ capacity: 3 })
  const waits = async () =>
    (await Promise.all(jobs.map(({ id }) => app.getJob(id)))).every(
      ({ status, attempt, readyAt }) =>
        status === 'queued' && attempt === 1 && readyAt.getTime() > Date.now(),
    )
  await until(waits, 'all of them to wait for their time')
  expect(await counts(app)).toEqual({ active: 3, scheduled: 0 })
  await expect(app.submit(snoozes, null)).rejects.toMatchObject({ details: { ceiling: 3, active: 3 } })
})

test(
  'a look at the system counts scheduled jobs up to a bound, and all of them when the limit may be reached',
  async () => {
    const app = await open({ maxScheduled: 4 })
    await app.submitMany(reminder, [1, 2, 3], nextYear)
    await app.work()
    await untilLedgerComplete(database.sql)
    expect(await countScheduled(database.sql, 2)).toBe(2)
    expect(await counts(app)).toMatchObject({ scheduled: 3 })
    await app.submit(reminder, 4, nextYear)
    expect(await countScheduled(database.sql, 2)).toBe(4)
  },
  LEDGER_MS + 60_000,
)
