import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { type Sluice, task } from '../../src/index.ts'
import type { Prefetch } from '../../src/model/assignment.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { SessionByHand } from '../support/session-by-hand.ts'
import { forgetClaims, plantAssigned, plantHolder, removeHolder } from '../support/state/assigned.ts'
import { until } from '../support/until.ts'

// Between two cycles a worker starts assigned jobs that the database still lists as assigned.

const database = useDatabase({ direct: true })
const apps = useApps(database)
let app: Sluice
let db: Database
let locker: pg.Client

beforeAll(async () => {
  db = new Database({
    url: database.url,
    maxConnections: 2,
    applicationName: 'session',
    statementTimeoutMs: 10_000,
  })
  locker = new pg.Client(database.url)
  await locker.connect()
})
afterAll(() => Promise.all([db.close(), locker.end()]))
beforeEach(async () => {
  app = await apps.open({
    tasks: [task({ name: 'act', lane: 'narrow', run: () => null })],
    lanes: { narrow: { slots: 6 } },
  })
})
afterEach(async () => {
  await locker.query('rollback')
  const workers = await database.sql<{ id: string }>('select id from sluice.workers')
  for (const { id } of workers) await removeHolder(database.sql, id)
})

const submit = async (count: number) =>
  (await app.submitMany('act', Array(count).fill(undefined))).map(({ id }) => id)

const slotsOf = async (worker: string) => {
  const [row] = await database.sql<{ slots: number }>(
    'select slots from sluice.holdings where worker_id = $1',
    [worker],
  )
  return row!.slots
}

const stateOf = (ids: readonly string[]) =>
  database.sql<{ id: string; assigned: boolean }>(
    'select id, assigned from sluice.claimed where id = any ($1::bigint[]) order by id',
    [ids],
  )

async function openSession(): Promise<SessionByHand> {
  const identity = {
    name: 'by hand',
    host: 'here',
    pid: 1,
    version: '0',
    capacity: 0,
    cores: 1,
    tasks: ['act'],
    labels: {},
  }
  const session = await SessionByHand.open({ db, connection: db, identity })
  // No other worker comes first.
  session.order.notePeers(1, 0)
  return session
}

/** As a worker that asks for so many jobs beyond its slots, has started these, and uses so many slots until the answer comes. */
const asking = (ahead: number, started: readonly string[], slots = 4): Prefetch => ({
  ahead: () => ahead,
  room: () => 1000,
  holds: () => false,
  isWaiting: (id) => !started.includes(id),
  slots: () => slots,
  recall() {},
})

const completed = (id: string, result = 'null') =>
  ({ id, attempt: 1, ending: { kind: 'completed', result } }) as const

test('keeps the slots of assigned jobs that have started when endings are recorded one by one', async () => {
  await submit(10)
  const session = await openSession()
  const { assignments } = await session.cycle([], 4, 0, asking(6, [], 0))
  const [running, ahead] = [false, true].map((isAhead) =>
    assignments.filter(({ prefetched }) => (prefetched !== undefined) === isAhead).map(({ id }) => id),
  )
  expect([running!.length, ahead!.length]).toEqual([4, 6])
  // Idle slots are given back at once while another worker waits for them.
  const other = await plantHolder(database.sql, 'waits', 'narrow')
  await database.sql(
    'update sluice.holdings set slots = 0, wants = true, asked_at = clock_timestamp() where worker_id = $1',
    [other],
  )

  // Assigned jobs run in the slots of the four that have ended. One result cannot be stored, so each ending is sent by itself.
  const ended = running!.map((id, i) => completed(id, i === 0 ? '"\\u0000"' : 'null'))
  await session.cycle(ended, 0, 0, asking(0, ahead!.slice(0, 4)))
  expect(await slotsOf(session.workerId)).toBe(4)
  expect(await app.getJob(running![0]!)).toMatchObject({ state: 'failed', error: /cannot be stored/ })

  await session.cycle([], 0, 0, asking(0, ahead!.slice(0, 4)))
  expect((await stateOf(ahead!)).filter(({ assigned }) => !assigned)).toHaveLength(4)
})

test('after a crash has forgotten its jobs, a job that ended since the request was made is not reported as started', async () => {
  await submit(10)
  const session = await openSession()
  const { assignments } = await session.cycle([], 4, 0, asking(6, [], 0))
  const [running, ahead] = [false, true].map((isAhead) =>
    assignments.filter(({ prefetched }) => (prefetched !== undefined) === isAhead).map(({ id }) => id),
  )
  await forgetClaims(database.sql, session.workerId)
  // While the request is on its way, one job ends and another one starts in its slot.
  const over = running![0]!
  session.noteEnd(over)
  session.drop(ahead!.slice(1))
  session.markOutOfStep()
  await session.cycle([], 0, 0, asking(0, running!))

  const runs = [...running!.slice(1), ahead![0]!]
  expect(await stateOf([over, ...runs])).toEqual([
    { id: over, assigned: true },
    ...runs.map((id) => ({ id, assigned: false })),
  ])
  expect(await slotsOf(session.workerId)).toBe(4)

  await session.cycle([completed(over)], 0, 0, asking(0, runs))
  expect(await app.getJob(over)).toMatchObject({ state: 'completed', attempt: 1 })
})

test('a job that was assigned and runs is reported as started by a worker that asks for no more of them', async () => {
  await submit(10)
  const session = await openSession()
  const { assignments } = await session.cycle([], 4, 0, asking(6, [], 0))
  const [running, ahead] = [false, true].map((isAhead) =>
    assignments.filter(({ prefetched }) => (prefetched !== undefined) === isAhead).map(({ id }) => id),
  )
  session.drop(ahead!.slice(1))
  session.markOutOfStep()
  await session.cycle([completed(running![0]!, '"\\u0000"'), completed(running![1]!)], 0, 0)
  // The endings went one by one, and starts are reported with the last part of a report that went as a whole.
  expect(await stateOf([ahead![0]!])).toMatchObject([{ assigned: true }])

  await session.cycle([], 0, 0)
  expect(await stateOf([ahead![0]!])).toMatchObject([{ assigned: false }])
  expect(await stateOf(ahead!.slice(1))).toEqual([])
})

test('reports a start again that the database has forgotten', async () => {
  await submit(6)
  const session = await openSession()
  const { assignments } = await session.cycle([], 4, 0, asking(2, [], 0))
  const [first] = assignments.filter(({ prefetched }) => prefetched !== undefined).map(({ id }) => id)
  const ended = assignments.find(({ prefetched }) => prefetched === undefined)!.id
  await session.cycle([completed(ended)], 0, 0, asking(0, [first!]))
  expect(await stateOf([first!])).toMatchObject([{ assigned: false }])

  // Cycles without endings commit asynchronously: a crash of the server may forget this.
  await database.sql(
    `update sluice.claims c set assigned = array[$1::bigint] || coalesce(c.assigned, '{}') where $1::bigint = any (c.ids)`,
    [first],
  )
  session.markOutOfStep()
  await session.cycle([], 0, 0, asking(0, [first!]))
  expect(await stateOf([first!])).toMatchObject([{ assigned: false }])
})

test.for([
  ['all of them, as its worker has no capacity', 0, 7],
  ['as many as its worker has room for', 5, 5],
] as const)('a lane that gets its first limit counts assigned jobs: %s', async ([, capacity, slots]) => {
  await app.setLane('narrow', { slots: null })
  const holder = await plantHolder(database.sql, 'holder', 'narrow')
  await database.sql('update sluice.workers set capacity = $2 where id = $1', [holder, capacity])
  await plantAssigned(database.sql, holder, await submit(7), 2)
  await app.setLane('narrow', { slots: 8 })
  expect(await slotsOf(holder)).toBe(slots)
})

test('a resync waits for a claim no longer than a second, as heartbeats wait for the resync', async () => {
  const holder = await plantHolder(database.sql, 'holder', 'narrow')
  await plantAssigned(database.sql, holder, await submit(2))
  await locker.query('begin')
  await locker.query('select 1 from sluice.claims for update')
  const text = `select sluice.resync_v1($1, '[]')`
  const resync = db.run({ name: 'resync_in_vain', text }, [holder])
  await expect(resync).rejects.toMatchObject({ code: '55P03' })
  await locker.query('commit')
})

test('a resync after a crash locks the jobs it may get back before it locks claims, as a cancel does', async () => {
  const [waiting, ...ids] = await submit(3)
  const holder = await plantHolder(database.sql, 'holder', 'narrow')
  await plantAssigned(database.sql, holder, ids)
  await database.sql('update sluice.generation set claims_open = false')
  await locker.query('begin')
  await locker.query('select 1 from sluice.queue where id = $1 for update', [waiting])
  const named = JSON.stringify([{ id: waiting, attempt: 1 }])
  const text = 'select * from sluice.resync_v1($1, $2)'
  const resync = db.run({ name: 'resync_by_hand', text }, [holder, named])
  await until(
    async () =>
      (
        await database.sql(
          `select 1 from pg_stat_activity where application_name = 'session' and wait_event_type = 'Lock'`,
        )
      ).length === 1,
    'the resync to wait for the row of the queue',
  )
  await locker.query('select 1 from sluice.claims for update nowait')
  await locker.query('commit')
  await resync
  await database.sql('update sluice.generation set claims_open = true')
})

test('a cancelled workflow asks assigned children to stop as well', async () => {
  const holder = await plantHolder(database.sql, 'holder', 'narrow')
  const ids = await submit(2)
  const [parent] = await submit(1)
  await database.sql(
    `with data as (update sluice.job_data set parent_id = $1, root_id = $1, idx = id where id = any ($2::bigint[]))
     update sluice.queue set parent_id = $1, idx = id where id = any ($2::bigint[])`,
    [parent, ids],
  )
  await plantAssigned(database.sql, holder, ids, 1)
  expect(
    await database.sql('select sluice.close_children_v1($1, $2) as told', [parent, 'cancelled: x']),
  ).toEqual([{ told: true }])
  const [claim] = await database.sql<{ cancels: object }>(
    'select cancels from sluice.claims where worker_id = $1',
    [holder],
  )
  expect(Object.keys(claim!.cancels).sort()).toEqual([...ids].sort())
})
