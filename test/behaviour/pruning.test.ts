import { afterAll, beforeAll, expect, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { task } from '../../src/index.ts'
import { pruneHistory } from '../../src/store/prune-history.ts'
import { pruneLeftovers } from '../../src/store/prune-leftovers.ts'
import { readSettings } from '../../src/store/read-settings.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const apps = useApps(database)
let db: Database

beforeAll(() => {
  db = new Database({ url: database.url, maxConnections: 1, applicationName: 'pruning' })
})
afterAll(() => db.close())

async function age(ids: readonly string[], interval: string): Promise<void> {
  await database.sql(
    `update sluice.jobs set finished_at = finished_at - $2::interval, submitted_at = submitted_at - $2::interval where id = any ($1)`,
    [ids, interval],
  )
}

test('finished jobs are kept for seven days, then they go with all their traces', async () => {
  expect((await readSettings(db)).retentionMs).toBe(7 * 86_400_000)
  const traces = task({
    name: 'traces',
    retry: { attempts: 2, delay: 0 },
    run: async (fails: boolean, ctx) => {
      ctx.log.info('x')
      ctx.progress(1)
      await ctx.step('s', () => 1)
      if (fails || ctx.attempt === 1) throw new Error('no')
    },
  })
  const worker = await apps.open({ tasks: [traces], lanes: { six: { slots: 6, tasks: ['traces'] } } })
  const app = await apps.open({ tasks: [traces] })
  await worker.work({ capacity: 6 })
  const jobs = await app.submitMany(traces, [false, true, false, true])
  await Promise.allSettled(jobs.map((job) => job.result()))
  const cancelled = await app.submit(traces, false, { runAt: '1h' })
  await app.cancel(cancelled.id)
  await worker.close() // It prunes, too.
  const ids = [...jobs.map((job) => job.id), cancelled.id]
  await age([ids[0]!, ids[1]!, ids[4]!], '8 days')
  await age([ids[2]!, ids[3]!], '6 days 23 hours')

  expect((await pruneHistory(db, '0', 1000)).pruned).toBe(3)

  const left = await app.listJobs({ task: 'traces' })
  expect(left.map((job) => job.id).sort()).toEqual([ids[2]!, ids[3]!].sort())
  for (const table of ['logs', 'steps', 'notes', 'attempts', 'attempt_errors', 'traces']) {
    const rows = await database.sql<{ id: string }>(`select distinct job_id as id from sluice.${table}`)
    expect(rows.map((row) => row.id).sort(), table).toEqual([ids[2]!, ids[3]!].sort())
  }
  expect((await pruneHistory(db, '0', 1000)).pruned).toBe(0)
  await database.sql('delete from sluice.jobs')
})

test('what has not ended is never pruned, however old', async () => {
  const waits = task({ name: 'waits', approval: true, run: (_: unknown) => null })
  const app = await apps.open({ tasks: [waits] })
  const jobs = [await app.submit(waits, 1), await app.submit(waits, 2, { runAt: '1h' })]
  await app.approve(jobs[1]!.id)
  await database.sql(`update sluice.jobs set submitted_at = '2001-01-01' where task = 'waits'`)

  expect((await pruneHistory(db, '0', 1000)).pruned).toBe(0)
  expect(await app.listJobs({ task: 'waits' })).toHaveLength(2)
})

test('the retention is one setting for all, given by a program', async () => {
  const quick = task({ name: 'quick', run: (n: number) => n })
  const app = await apps.open({ tasks: [quick], retention: '1h' })
  const worker = await apps.open({ tasks: [quick] })
  await worker.work()
  const jobs = await app.submitMany(quick, [1, 2])
  await Promise.all(jobs.map((job) => job.result()))
  await worker.close()
  await age([jobs[0]!.id], '61 minutes')
  await age([jobs[1]!.id], '59 minutes')

  expect((await pruneHistory(db, '0', 1000)).pruned).toBe(1)
  await expect(app.getJob(jobs[0]!.id)).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
  expect(await app.getJob(jobs[1]!.id)).toMatchObject({ result: 2 })
  // A program that says nothing leaves it as it is.
  await apps.open({})
  expect((await readSettings(db)).retentionMs).toBe(3_600_000)
  await expect(apps.open({ retention: 0 })).rejects.toMatchObject({ code: 'INVALID_CONFIG' })
})

test('dead workers, old samples and old announcements go too', async () => {
  const app = await apps.open({ retention: '7d' })
  await app.work({ name: 'ended long ago' })
  await app.stopWorking()
  await app.work({ name: 'ended lately' })
  await app.stopWorking()
  await database.sql(
    `update sluice.workers set ended_at = ended_at - interval '8 days' where name = 'ended long ago'`,
  )
  await database.sql(
    `insert into sluice.samples (class_id, at, depth, running) values (1, clock_timestamp() - interval '25 hours', 1, 0), (1, clock_timestamp(), 1, 0)`,
  )
  await database.sql(
    `insert into sluice.waiters (process, until) values ('gone', clock_timestamp() - interval '2 hours'), ('here', clock_timestamp())`,
  )
  await pruneLeftovers(db)

  const names = await database.sql<{ name: string }>(
    `select name from sluice.workers where name like 'ended%'`,
  )
  expect(names).toEqual([{ name: 'ended lately' }])
  expect(
    await database.sql('select 1 from sluice.samples where class_id = 1 and depth = 1 and running = 0'),
  ).toHaveLength(1)
  expect(await database.sql(`select process from sluice.waiters where process in ('gone', 'here')`)).toEqual([
    { process: 'here' },
  ])
})

test('ten that prune at once delete each job once', async () => {
  const bulk = task({ name: 'bulk', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [bulk] })
  await app.submitMany(bulk, Array.from({ length: 2000 }))
  await database.sql(
    `update sluice.jobs set state = 'completed', finished_at = clock_timestamp() - interval '30 days' where task = 'bulk'`,
  )
  const ten = new Database({ url: database.url, maxConnections: 10, applicationName: 'ten' })
  try {
    const counts = await Promise.all(Array.from({ length: 10 }, () => pruneHistory(ten, '0', 5000)))
    expect(counts.reduce((sum, each) => sum + each.pruned, 0)).toBe(2000)
    expect(await app.listJobs({ task: 'bulk' })).toEqual([])
  } finally {
    await ten.close()
  }
})
