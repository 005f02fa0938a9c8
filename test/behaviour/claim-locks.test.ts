import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { transactWithRetries } from '../../src/db/with-retries.ts'
import { cancelJobs } from '../../src/store/cancel-jobs.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

// Sessions that lock several claims meet here. When the file is done, PostgreSQL must have counted no deadlock.

const database = useDatabase({ direct: true })
useCommitChecker(database)

const EARLY = 3
const LATE = 5
const LAST = 9
const classes: Record<string, number> = {}
let db: Database

beforeAll(async () => {
  db = new Database({ url: database.url, maxConnections: 8, applicationName: 'cancels' })
  for (const lane of ['first', 'second']) {
    await database.sql('insert into sluice.lanes (name) values ($1)', [lane])
    const [row] = await database.sql<{ id: number }>(
      'insert into sluice.classes (lane, task) values ($1, $2) returning id',
      [lane, `${lane}Task`],
    )
    classes[lane] = row!.id
  }
  for (const id of [EARLY, LATE, LAST]) {
    await database.sql(
      `insert into sluice.workers (id, name, host, pid, version, capacity, cores, tasks)
       values ($1, $2, 'here', 1, '0', 0, 1, '{firstTask,secondTask}')`,
      [id, `worker ${id}`],
    )
    await database.sql(`insert into sluice.holdings (worker_id, lane) values ($1, 'first'), ($1, 'second')`, [
      id,
    ])
  }
})
afterAll(() => db.close())

/** A job that runs under a claim of its own. */
async function run(worker: number, seq: number, lane = 'first'): Promise<string> {
  const [job] = await database.sql<{ id: string }>(
    'insert into sluice.jobs (task, class_id) values ($1, $2) returning id',
    [`${lane}Task`, classes[lane]],
  )
  await claim(database.sql, worker, seq, job!.id)
  return job!.id
}

type Send = (text: string, values?: unknown[]) => Promise<unknown>

function claim(send: Send, worker: number, seq: number, id: string): Promise<unknown> {
  return send(
    'select sluice.start_jobs_v1($1, clock_timestamp(), $2, array(select ctid from sluice.queue where id = $3))',
    [worker, seq, id],
  )
}

/** A session that holds a claim until its transaction ends. */
async function hold(worker: number, seq: number): Promise<pg.Client> {
  const client = new pg.Client(database.url)
  await client.connect()
  await client.query('begin')
  const { rowCount } = await client.query(
    'select 1 from sluice.claims where worker_id = $1 and seq = $2 for update',
    [worker, seq],
  )
  expect(rowCount).toBe(1)
  return client
}

async function finish(client: pg.Client): Promise<void> {
  await client.query('commit')
  await client.end()
}

/** Until so many sessions wait, one of them for this session. */
const untilWaiting = (sessions: number, holder: pg.Client) =>
  until(async () => {
    const [row] = await database.sql<{ n: number; blocked: boolean }>(
      `select count(*)::integer as n, coalesce(bool_or($1 = any (pg_blocking_pids(pid))), false) as blocked from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`,
      [pidOf(holder)],
    )
    return row!.n === sessions && row!.blocked
  }, `${sessions} sessions to wait for a lock`)

const pidOf = (client: pg.Client) => (client as unknown as { processID: number }).processID

const cancel = (ids: readonly string[]) => transactWithRetries(db, (tx) => cancelJobs(tx, ids, 'enough'))

async function cancelling(ids: readonly string[]): Promise<number> {
  const [row] = await database.sql<{ n: number }>(
    `select count(*)::integer as n from sluice.jobs
      where id = any ($1) and (state = 'cancelled' or state = 'running' and cancel_at is not null)`,
    [ids],
  )
  return row!.n
}

test('a bulk cancel and a take-over of two lanes of one worker lock claims in the same order', async () => {
  // The take-over comes to the lane "first" first, and the cancel to the lower number.
  const low = await run(LATE, 100, 'second')
  const high = await run(LATE, 200, 'first')
  const holder = await hold(LATE, 100)
  const cancelled = cancel([high, low])
  await untilWaiting(1, holder)
  await database.sql(`update sluice.lanes set stale_ms = 50 where name in ('first', 'second')`)
  await database.sql(
    `update sluice.workers set seen_at = clock_timestamp() + interval '1 h' where id <> $1`,
    [LATE],
  )
  await database.sql(`update sluice.workers set seen_at = clock_timestamp() - interval '1 h' where id = $1`, [
    LATE,
  ])
  const other = new pg.Client(database.url)
  await other.connect()
  const taken = other.query('select * from sluice.recover_lost_workers_v1(1000000)')
  await untilWaiting(2, holder)
  await finish(holder)
  const [answers, { rows }] = await Promise.all([cancelled, taken])
  await other.end()
  expect(answers).toHaveLength(2)
  expect(rows).toMatchObject([
    { lane: 'first', cancelled: 1 },
    { lane: 'second', cancelled: 1 },
  ])
  expect(await cancelling([low, high])).toBe(2)
  await database.sql(`update sluice.lanes set stale_ms = 15000 where name in ('first', 'second')`)
})

test('a bulk cancel does not wait for a claim before those that it has locked, when a job has moved there', async () => {
  const stays = await run(LAST, 100)
  const moves = await run(LAST, 200)
  const third = await run(LAST, 300)
  const first = await hold(LAST, 200)
  const second = await hold(LAST, 300)
  const one = cancel([stays, moves, third])
  await untilWaiting(1, first)
  // It fails, and starts again under a worker whose claims come before.
  await first.query('select sluice.end_attempts_v1($1, $2)', [
    LAST,
    JSON.stringify([{ id: Number(moves), seq: 200, ending: 'retry', error: 'x', delayMs: 0 }]),
  ])
  await claim((text, values) => first.query(text, values), EARLY, 700, moves)
  await finish(first)
  await untilWaiting(1, second)
  const other = cancel([third, moves, stays])
  await untilWaiting(2, second)
  await finish(second)
  expect(await one).toHaveLength(3)
  expect(await other).toHaveLength(3)
  expect(await cancelling([stays, moves, third])).toBe(3)
})

test('bulk cancels of the same jobs in opposite orders do not block each other for good', async () => {
  const ids: string[] = []
  for (let n = 0; n < 60; n++) ids.push(await run([EARLY, LAST][n % 2]!, 10_000 - n))
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, n) => cancel(n % 2 === 0 ? ids : [...ids].reverse())),
  )
  expect(answers.map((rows) => rows.length)).toEqual(Array(8).fill(60))
  expect(await cancelling(ids)).toBe(60)
})
