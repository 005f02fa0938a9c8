import { expect, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { snooze, task } from '../../src/index.ts'
import { expireStartDeadlines } from '../../src/store/expire-start-deadlines.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

/** What the duty does in a tick. */
async function expireTick(): Promise<void> {
  const db = new Database({ url: database.url, maxConnections: 1, applicationName: 'tick' })
  await expireStartDeadlines(db, 1000)
  await db.close()
}

test('a job without capacity by its deadline fails with what blocked it', async () => {
  const lonely = task({ name: 'lonely', run: (_: unknown) => null })
  const stopped = task({ name: 'stopped', lane: 'closed', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [lonely, stopped], lanes: { closed: { slots: 1, enabled: false } } })
  app.startDuties()
  await app.work({ tasks: ['stopped'] })
  // Long enough for the reason to be noted before.
  const alone = await app.submit(lonely, 1, { deadline: '2500ms' })
  const closed = await app.submit(stopped, 1, { deadline: '2500ms' })
  const patient = await app.submit(stopped, 2, { deadline: '1h' })

  await expect(alone.result()).rejects.toMatchObject({
    code: 'JOB_FAILED',
    error: 'capacity: not started by its deadline: no worker runs task lonely',
  })
  await expect(closed.result()).rejects.toMatchObject({
    error: 'capacity: not started by its deadline: lane closed is paused',
  })
  const job = await app.getJob(alone.id)
  expect(job).toMatchObject({ status: 'failed', attempt: 0, startedAt: null })
  expect(job.finishedAt!.getTime()).toBeGreaterThanOrEqual(job.submittedAt.getTime() + 2500)
  expect(await app.getJob(patient.id)).toMatchObject({ status: 'queued' })
  await app.cancel(patient.id)
})

test('the deadline is for starting: a job that started in time may run on, fail and come back', async () => {
  const gate = new Gate()
  const slow = task({
    name: 'slow',
    retry: { attempts: 2, delay: '1h' },
    run: async () => {
      await gate.pass()
      throw new Error('after the deadline')
    },
  })
  const app = await apps.open({ tasks: [slow] })
  await app.work()
  const job = await app.submit(slow, undefined, { deadline: '1m' })
  await gate.arrived()
  await database.sql(
    `update sluice.jobs set deadline_at = clock_timestamp() - interval '1 s' where id = $1`,
    [job.id],
  )
  await expireTick()
  expect(await app.getJob(job.id)).toMatchObject({ status: 'running' })
  gate.open()

  await until(async () => (await app.getJob(job.id)).failures === 1, 'the failure')
  await expireTick()
  expect(await app.getJob(job.id)).toMatchObject({
    status: 'queued',
    deadlineAt: null,
    error: 'after the deadline',
  })
})

for (const [what, end, ending] of [
  ['a failure', 'fail', 'failed'],
  ['a snooze', 'snooze', 'snoozed'],
  ['being handed back by a worker that stops', 'stop', 'returned'],
] as const) {
  test(`${what} ends the deadline: the job has started in time`, async () => {
    const started = new Gate()
    const ends = task({
      name: 'ends',
      retry: { attempts: 2, delay: '1h' },
      run: async (how: string) => {
        void started.pass()
        if (how === 'fail') throw new Error('once')
        if (how === 'snooze') throw snooze('1h')
        // It does not hear that it shall stop, so it is handed back after the graces.
        await new Promise(() => {})
      },
    })
    const app = await apps.open({ tasks: [ends], shutdownGrace: '50ms' })
    const job = await app.submit(ends, end, { deadline: '1h' })
    expect((await app.getJob(job.id)).deadlineAt).not.toBeNull()
    await app.work()
    await started.arrived()
    if (end === 'stop') await app.stopWorking()
    await until(async () => (await app.getJob(job.id)).status === 'queued', 'the job to be back in line')
    expect(await app.listAttempts(job.id)).toMatchObject([{ attempt: 1, ending }])
    expect(await app.getJob(job.id)).toMatchObject({ deadlineAt: null })
    await app.cancel(job.id)
  })
}

test('it does not run while the job waits for approval, and begins with it', async () => {
  const asks = task({ name: 'asks', approval: true, deadline: '30m', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [asks] })
  const job = await app.submit(asks, 1, { deadline: 1 })
  const second = await app.submit(asks, 2)
  await expireTick()
  expect(await app.getJob(job.id)).toMatchObject({ status: 'awaiting_approval', deadlineAt: null })

  await app.approve(second.id)
  const approved = await app.getJob(second.id)
  expect(approved.deadlineAt!.getTime() - approved.readyAt.getTime()).toBe(1_800_000)
  await app.approve(job.id)
  await until(
    async () => (await app.getJob(job.id)).deadlineAt!.getTime() < Date.now(),
    'the deadline to pass',
  )
  await expireTick()
  await expect(job.result()).rejects.toMatchObject({ error: expect.stringMatching(/^capacity: /) })
})

test('it does not run before runAt, and begins there', async () => {
  const later = task({ name: 'later', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [later] })
  const job = await app.submit(later, 1, { runAt: '1h', deadline: 1 })
  await expireTick()

  const view = await app.getJob(job.id)
  expect(view.status).toBe('queued')
  expect(view.deadlineAt!.getTime() - view.readyAt.getTime()).toBe(1)
})

test('recovery does not reset it: a job taken from a dead worker fails at its first deadline', async () => {
  const lost = task({ name: 'lost', lane: 'quick', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [lost], lanes: { quick: { slots: 1 } } })
  const job = await app.submit(lost, 1, { deadline: '1h' })
  const { deadlineAt } = await app.getJob(job.id)
  await dieRunning(job.id, 'lost')
  // The server itself may not have been up for the default of 15 s.
  await database.sql(`update sluice.lanes set stale_ms = 100 where name = 'quick'`)
  await database.sql('select sluice.recover_lost_workers_v1(1000000000)')
  await database.sql(`update sluice.lanes set stale_ms = 15000 where name = 'quick'`)

  expect(await app.getJob(job.id)).toMatchObject({ status: 'queued', losses: 1, attempt: 1, deadlineAt })
  await database.sql(`update sluice.jobs set deadline_at = clock_timestamp() where id = $1`, [job.id])
  await expireTick()
  await expect(job.result()).rejects.toMatchObject({
    error: expect.stringMatching(/^capacity: not started/),
  })
})

test('the submission\u2019s deadline wins over the task\u2019s, and that over the program\u2019s', async () => {
  const plain = task({ name: 'plain', run: (_: unknown) => null })
  const own = task({ name: 'own', deadline: '20m', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [plain, own], deadline: '30m' })
  const minutes = async (job: { id: string }) => {
    const { deadlineAt, submittedAt } = await app.getJob(job.id)
    return (deadlineAt!.getTime() - submittedAt.getTime()) / 60_000
  }

  expect(await minutes(await app.submit(plain, 1))).toBe(30)
  expect(await minutes(await app.submit(own, 1))).toBe(20)
  expect(await minutes(await app.submit(own, 1, { deadline: '10m' }))).toBe(10)
  // A program that says nothing has none.
  const other = await apps.open({ tasks: [plain] })
  expect((await other.getJob((await other.submit(plain, 1)).id)).deadlineAt).toBeNull()
})

/** Makes the job one that a worker was running which has not been heard of for an hour. */
async function dieRunning(id: string, name: string): Promise<void> {
  const [worker] = await database.sql<{ id: string }>(
    `select sluice.register_worker_v1('dead', 'host', 1, '0', 1, 1, $1) as id`,
    [[name]],
  )
  await database.sql('select sluice.resync_v1($1)', [worker!.id])
  await database.sql(
    `update sluice.jobs set state = 'running', worker_id = $2, attempt = 1, started_at = clock_timestamp() where id = $1`,
    [id, worker!.id],
  )
  await database.sql(`update sluice.workers set seen_at = clock_timestamp() - interval '1 h' where id = $1`, [
    worker!.id,
  ])
}
