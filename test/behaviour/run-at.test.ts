import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { lockComposite, plantDue, promoteDue } from '../support/state/jobs.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

test('a job does not start before its time, and soon after', async () => {
  const clock = task({ name: 'clock', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [clock], lanes: { wide: { slots: 10, tasks: ['clock'] } } })
  await app.work({ capacity: 10 })
  const jobs = [
    await app.submit(clock, 1, { runAt: '400ms' }),
    await app.submit(clock, 2, { runAt: new Date(Date.now() + 900) }),
    await app.submit(clock, 3, { runAt: 700, priority: 5 }),
  ]
  for (const job of jobs)
    expect(await app.getJob(job.id)).toMatchObject({ status: 'queued', state: 'scheduled' })
  expect((await app.why(jobs[0]!.id)).reason).toMatch(/^it is scheduled for 20/)

  await Promise.all(jobs.map((job) => job.result()))

  for (const job of jobs) {
    const { readyAt, startedAt, submittedAt } = await app.getJob(job.id)
    expect(startedAt!.getTime()).toBeGreaterThanOrEqual(readyAt.getTime())
    expect(readyAt.getTime()).toBeGreaterThan(submittedAt.getTime())
    // One tick of the duty, and slack for a busy machine.
    expect(startedAt!.getTime() - readyAt.getTime()).toBeLessThan(5000)
  }
})

test('a time that has passed means now', async () => {
  const now = task({ name: 'now', run: (n: number) => n })
  const app = await apps.open({ tasks: [now] })
  const job = await app.submit(now, 1, { runAt: new Date('2001-01-01') })
  const view = await app.getJob(job.id)

  expect(view).toMatchObject({ state: 'ready' })
  expect(view.readyAt).toEqual(view.submittedAt)
  expect((await app.getJob((await app.submit(now, 2, { runAt: 0 })).id)).state).toBe('ready')
})

test('a thousand jobs that are due at once all start', async () => {
  const wave = task({ name: 'wave', run: (n: number) => n })
  const app = await apps.open({ tasks: [wave], lanes: { sea: { slots: 100, tasks: ['wave'] } } })
  const jobs = await app.submitMany(
    wave,
    Array.from({ length: 1000 }, (_, n) => n),
    { runAt: 300 },
  )
  await app.work({ capacity: 100 })

  expect(await Promise.all(jobs.map((job) => job.result()))).toEqual(
    Array.from({ length: 1000 }, (_, n) => n),
  )
})

test('a job that is cancelled before its time and run again keeps that time', async () => {
  const later = task({ name: 'later', run: (n: number) => n })
  const app = await apps.open({ tasks: [later] })
  const job = await app.submit(later, 1, { runAt: '1h', deadline: '2h' })
  const { readyAt, deadlineAt } = await app.getJob(job.id)
  await app.cancel(job.id)
  await app.rerun(job.id)
  expect(await app.getJob(job.id)).toMatchObject({ state: 'scheduled', readyAt, deadlineAt })

  // A time that has passed meanwhile means now.
  const soon = await app.submit(later, 2, { runAt: 50 })
  await app.cancel(soon.id)
  const due = (await app.getJob(soon.id)).readyAt.getTime()
  await until(() => Date.now() > due, 'its time to pass')
  await app.rerun(soon.id)
  expect(await app.getJob(soon.id)).toMatchObject({ state: 'ready' })
  await app.work()
  expect(await soon.result()).toBe(2)
})

test('a workflow that is cancelled before its time and resumed keeps that time', async () => {
  const step = task({ name: 'step', run: () => 'done' })
  const definition = { steps: { only: { task: 'step' } }, output: '${{ steps.only.result }}' }
  const app = await apps.open({ tasks: [step], workflows: [{ name: 'flow', definition }] })
  const job = await app.submit('flow', {}, { runAt: '1h' })
  const { readyAt } = await app.getJob(job.id)
  await app.cancel(job.id)
  await app.retry(job.id, { failed: true })
  expect(await app.getJob(job.id)).toMatchObject({ state: 'scheduled', readyAt, startedAt: null })

  await plantDue(database.sql, job.id)
  await app.work()
  expect(await job.result()).toBe('done')
})

test('a workflow that is due does not wait for somebody who is about to cancel it, nor the other way round', async () => {
  const step = task({ name: 'step', run: (_: unknown) => null })
  const someday = { name: 'someday', definition: { steps: { only: { task: 'step' } } } }
  const app = await apps.open({ tasks: [step], workflows: [someday] })
  const job = await app.submit('someday', null, { runAt: '1h' })
  const canceller = new pg.Client(database.directUrl)
  await canceller.connect()
  onTestFinished(() => canceller.end())
  await plantDue(database.sql, job.id)
  await lockComposite(canceller, job.id)
  expect(await promoteDue(database.sql), 'what the duty promoted').toBe(0)
  expect((await app.getJob(job.id)).state).toBe('scheduled')
  await canceller.query(`select sluice.cancel_job_v1($1, 'changed my mind')`, [job.id])
  await canceller.query('commit')
  expect((await app.getJob(job.id)).state).toBe('cancelled')
})
