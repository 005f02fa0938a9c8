import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { prune } from '../../src/duties/prune.ts'
import { task } from '../../src/index.ts'
import { appendLogs } from '../../src/store/append-logs.ts'
import { pruneHistory } from '../../src/store/prune-history.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { ALL_JOB_TABLES } from '../support/state/jobs.ts'
import { until } from '../support/until.ts'
import { ended } from '../support/workflows.ts'

// Tests look for sessions that wait for a lock, and a pooler would hide which.
const database = useDatabase({ direct: true })
const apps = useApps(database)
const noop = task({ name: 'noop', run: (_: unknown) => null })
const log = { debug() {}, info() {}, warn() {}, error() {} }
let db: Database

beforeAll(() => {
  db = new Database({ url: database.url, maxConnections: 2, applicationName: 'pruning' })
})
afterEach(() => database.sql(`truncate ${ALL_JOB_TABLES}, sluice.trees, sluice.wakeups`))
afterAll(() => db.close())

/** Finished jobs of 30 days ago, in the order of their ids. */
async function plantOld(count: number): Promise<string[]> {
  await apps.open({ tasks: [noop] })
  const rows = await database.sql<{ id: string }>(
    `with stored as (
       insert into sluice.job_data (submitted_at, class_id, task)
       select clock_timestamp() - interval '30 days', t.class_id, t.name from sluice.tasks t, generate_series(1, $1) where t.name = 'noop'
       returning id, class_id)
     insert into sluice.outcomes (id, finished_at, ready_at, class_id, state)
     select id, clock_timestamp() - interval '30 days', clock_timestamp() - interval '30 days', class_id, 'completed' from stored
     returning id`,
    [count],
  )
  return rows.map(({ id }) => id).sort((a, b) => Number(a) - Number(b))
}

async function session(): Promise<pg.Client> {
  const client = new pg.Client(database.directUrl)
  client.on('error', () => {})
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

async function untilItWaits(statement: string): Promise<number> {
  return until(async () => {
    const [row] = await database.admin<{ pid: number }>(
      `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like $1`,
      [`%${statement}%`],
    )
    return row?.pid
  }, `${statement} to wait for a lock`)
}

const count = async (table: string): Promise<number> =>
  (await database.sql<{ n: number }>(`select count(*)::integer as n from sluice.${table}`))[0]!.n

test('one tick deletes every job whose retention has ended', async () => {
  await plantOld(60_000)
  const kept = await (await apps.open({ tasks: [noop] })).submit(noop, 1)

  const report = await prune.run({ db, log, goodForMs: 0, isStopping: () => false })

  expect(report.summary).toMatchObject({ pruned: 60_000 })
  expect(await database.sql('select id from sluice.job_data')).toEqual([{ id: kept.id }])
  expect(await count('outcomes')).toBe(0)
})

test('a process that stops ends its tick after one window', async () => {
  await plantOld(5000)
  const report = await prune.run({ db, log, goodForMs: 0, isStopping: () => true })
  expect(report.summary).toMatchObject({ pruned: 2000 })
})

test('a transaction deletes at most about 100,000 log lines and steps', async () => {
  const ids = await plantOld(30)
  await database.sql(
    'insert into sluice.traces (job_id, attempt, lines) select i, 1, 10000 from unnest($1::bigint[]) i',
    [ids],
  )
  const looks = []
  for (let after = '0', done = false; !done; ) {
    const look = await pruneHistory(db, after, 1000)
    looks.push(look.pruned)
    after = look.last ?? '0'
    done = look.last === null
  }
  expect(looks).toEqual([11, 11, 8, 0])
  expect(await count('traces')).toBe(0)
})

test('a workflow is deleted with the rows of everything below it, and its neighbour keeps all of its own', async () => {
  const item = task({
    name: 'item',
    run: async ({ n }: { n: number }, ctx) => {
      ctx.log.info(`item ${n}`)
      ctx.progress(1)
      await ctx.step('s', () => n)
    },
  })
  const steps = { all: { task: 'item', with_items: '${{ range(3) }}', with: { n: '${{ item }}' } } }
  const app = await apps.open({ tasks: [item], workflows: [{ name: 'tree', definition: { steps } }] })
  await app.work({ capacity: 6 })
  const [old, young] = [await app.submit('tree', null), await app.submit('tree', null)]
  expect([await ended(app, old.id), await ended(app, young.id)]).toEqual(['completed', 'completed'])
  await app.stopWorking()
  const tables = ['job_data', 'outcomes', 'composites', 'steps', 'notes', 'logs', 'traces']
  const before = await Promise.all(tables.map(count))
  await database.sql(
    `update sluice.outcomes set finished_at = finished_at - interval '30 days' where id = $1`,
    [old.id],
  )

  expect((await pruneHistory(db, '0', 1000)).pruned).toBe(5)

  expect(await Promise.all(tables.map(count))).toEqual(before.map((rows) => rows / 2))
  await expect(app.getJob(old.id)).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
  expect(await app.tree(young.id)).toMatchObject({ id: young.id })
})

test('a line that is being stored while its job is deleted goes with it', async () => {
  const [id] = await plantOld(1)
  const writer = await session()
  await writer.query('begin')
  await writer.query('select 1 from sluice.job_data where id = $1 for key share', [id])
  await writer.query(
    `insert into sluice.logs (job_id, attempt, at, level, line) values ($1, 1, clock_timestamp(), 'info', 'late')`,
    [id],
  )
  const pruning = pruneHistory(db, '0', 1000)
  await untilItWaits('prune_jobs_v1')
  await writer.query('commit')

  expect((await pruning).pruned).toBe(1)
  expect(await count('logs')).toBe(0)
})

test('a line that comes while its job is being deleted is refused', async () => {
  const [id] = await plantOld(1)
  // Lines are taken for ten seconds after the end of an attempt, so the job is young and the retention short.
  await database.sql(
    'update sluice.outcomes set finished_at = clock_timestamp(), attempt = 1 where id = $1',
    [id],
  )
  const pruner = await session()
  await pruner.query('begin')
  await pruner.query(`update sluice.settings set value = 1 where name = 'retention_ms'`)
  await until(
    async () =>
      (await pruner.query<{ pruned: number }>('select pruned from sluice.prune_jobs_v1(0, 1000)')).rows[0]!
        .pruned === 1,
    'the retention to end',
  )
  await pruner.query(`update sluice.settings set value = 604800000 where name = 'retention_ms'`)
  const appending = appendLogs(db, null, [
    { id: id!, attempt: 1, at: new Date().toISOString(), level: 'info', line: 'late' },
  ])
  await untilItWaits('at timestamptz, level text, line text')
  await pruner.query('commit')

  expect(await appending).toEqual([id])
  expect([await count('logs'), await count('traces')]).toEqual([0, 0])
})

test('a session that dies in the middle of pruning leaves every job as it was', async () => {
  const ids = await plantOld(100)
  await database.sql(
    `insert into sluice.attempts (job_id, attempt, ending) select i, 1, 'failed' from unnest($1::bigint[]) i`,
    [ids],
  )
  const [holder, pruner] = [await session(), await session()]
  await holder.query('begin')
  await holder.query('select 1 from sluice.job_data where id = $1 for key share', [ids.at(-1)])
  const pruning = pruner.query('select * from sluice.prune_jobs_v1(0, 1000)').catch(() => 'lost')
  await database.admin('select pg_terminate_backend($1)', [await untilItWaits('prune_jobs_v1')])
  expect(await pruning).toBe('lost')
  await holder.query('rollback')

  expect([await count('job_data'), await count('outcomes'), await count('attempts')]).toEqual([100, 100, 100])
  expect((await pruneHistory(db, '0', 1000)).pruned).toBe(100)
  expect([await count('job_data'), await count('outcomes'), await count('attempts')]).toEqual([0, 0, 0])
})

test('a reader that holds a transaction open delays neither pruning nor submissions', async () => {
  await plantOld(10)
  const reader = await session()
  await reader.query('begin isolation level repeatable read')
  expect((await reader.query('select id from sluice.jobs')).rowCount).toBe(10)

  expect((await pruneHistory(db, '0', 1000)).pruned).toBe(10)
  const app = await apps.open({ tasks: [noop] })
  await app.submit(noop, 1)

  expect((await reader.query('select id from sluice.jobs')).rowCount).toBe(10)
  expect(await count('job_data')).toBe(1)
  await reader.query('commit')
})

test('a job that is run again while it is being pruned is deleted or runs, never both', async () => {
  const ids = await plantOld(40)
  const app = await apps.open({ tasks: [noop] })
  const [reruns] = await Promise.all([
    Promise.allSettled(ids.map((id) => app.rerun(id))),
    pruneHistory(db, '0', 1000),
  ])
  const again = ids.filter((_, i) => reruns[i]!.status === 'fulfilled')
  const left = await database.sql<{ id: string }>('select id from sluice.job_data order by id')
  expect(left.map(({ id }) => id)).toEqual(again)
  expect(await count('queue')).toBe(again.length)
  expect(await count('outcomes')).toBe(0)
})
