import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Database, type Queryable } from '../../src/db/database.ts'
import { registerRemoteWorkers } from '../../src/engine/leases/remote-workers.ts'
import { addTasks } from '../../src/store/add-tasks.ts'
import { registerWorkers } from '../../src/store/register-workers.ts'
import { saveTasks } from '../../src/store/save-tasks.ts'
import { useDatabase } from '../support/database.ts'
import { plantRequest } from '../support/state/fleet.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
let db: Database
/** Somebody else. */
let others: pg.Client

beforeAll(async () => {
  db = new Database({ url: database.url, maxConnections: 3, applicationName: 'test' })
  others = new pg.Client(database.directUrl)
  await others.connect()
})

afterAll(async () => {
  await Promise.all([db.close(), others.end()])
})

beforeEach(async () => {
  await database.sql(`insert into sluice.pools (name, max) values ('a', 9), ('b', 9) on conflict do nothing`)
})

function worker(name: string, pool: string | null = null) {
  return {
    name,
    host: '',
    pid: 0,
    version: '',
    capacity: 1,
    cores: 1,
    tasks: [],
    labels: {},
    pool,
    request: pool === null ? null : `${name}.1`,
  }
}

const LOCK = 'select 1 from sluice.pools where name = $1 for no key update nowait'

/** What is done while somebody else holds the pool and `work` has come to wait for it. */
async function whileHeld<T>(pool: string, work: () => Promise<T>, then: () => Promise<void>): Promise<T> {
  await others.query('begin')
  await others.query(LOCK, [pool])
  const waiting = work()
  waiting.catch(() => {})
  try {
    await until(async () => {
      const rows = await database.sql<{ n: number }>(
        `select count(*)::integer as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      return rows[0]!.n === 1
    }, 'it to wait for the pool')
    await then()
  } finally {
    await others.query('rollback')
  }
  return waiting
}

test('workers that register together get their ids in the order given, whichever pools they name', async () => {
  const given = [worker('1', 'b'), worker('2'), worker('3', 'a'), worker('4', 'b'), worker('5', 'a')]
  const ids = await registerWorkers(db, given)
  const rows = await database.sql<{ id: string; name: string; pool: string | null }>(
    'select id::text, name, pool from sluice.workers where id = any ($1)',
    [ids],
  )
  const stored = new Map(rows.map((row) => [row.id, row]))
  expect(ids.map((id) => stored.get(id))).toMatchObject(given.map(({ name, pool }) => ({ name, pool })))
})

test('workers that register together wait for their pools by name, so that two servers never wait for each other', async () => {
  const register = () => registerWorkers(db, [worker('b', 'b'), worker('a', 'a')])
  const ids = await whileHeld('a', register, async () => {
    // Nobody holds the other one.
    await others.query(LOCK, ['b'])
  })
  expect(ids).toHaveLength(2)
})

const PLAIN = {
  lane: 'default',
  model: null,
  requires: {},
  priority: 0,
  approval: false,
  deadlineMs: null,
  maxLosses: 1,
  onLost: 'retry',
} as const

test('a worker that waits for its pool keeps nobody from making its tasks known', async () => {
  const task = { ...PLAIN, name: 'fresh' }
  const request = await plantRequest(database.url, 'a')
  const identity = { ...worker('c', 'a'), request, tasks: ['fresh'], keyId: '1' }
  const register = () =>
    db.transaction((tx) =>
      registerRemoteWorkers(tx, [identity], [task], task, { lanes: ['*'], highestPriority: 100 }),
    )
  const registered = await whileHeld('a', register, async () => {
    await db.transaction(async (tx) => {
      await addTasks(tx, [task])
    })
  })
  expect(registered).toMatchObject([{ differing: [] }])
  expect(await database.sql(`select name from sluice.tasks where name = 'fresh'`)).toHaveLength(1)
})

/** Runs statements in a transaction, and stops after the one of that name until `then` has been called and waits for a lock. */
async function pausedAfter(
  name: string,
  work: (tx: Queryable) => Promise<void>,
  then: () => Promise<unknown>,
): Promise<void> {
  let other: Promise<unknown> = Promise.resolve()
  await db.transaction((tx) =>
    work({
      run: async (statement, values) => {
        const rows = await tx.run(statement, values)
        if (statement.name === name) {
          other = then()
          other.catch(() => {})
          await until(isAnyoneWaiting, 'the other one to wait for a lock')
        }
        return rows
      },
    } as Queryable),
  )
  await other
}

async function isAnyoneWaiting(): Promise<boolean> {
  const rows = await database.sql(
    `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rows.length > 0
}

// A file whose databases saw a deadlock fails, and whoever is chosen for it gets an error.
test('a server with a new task and a program that changes others and knows that one too do not wait for each other', async () => {
  await database.sql(
    `select sluice.change_budget_v1('licences', '{"kind": "shared", "capacity": 3}', 'test', false)`,
  )
  const [first, second] = ['drawing-a', 'drawing-b'].map((name) => ({
    ...PLAIN,
    ...{ name, uses: { licences: { each: 1, devices: 1 } } },
  }))
  await saveTasks(db, [first!])
  await pausedAfter(
    'add_tasks',
    (tx) => addTasks(tx, [second!]),
    () => saveTasks(db, [{ ...first!, priority: 5 }, second!]),
  )
  const rows = await database.sql(
    `select name, priority from sluice.tasks where name like 'drawing-%' order by name`,
  )
  expect(rows).toEqual([
    { name: 'drawing-a', priority: 5 },
    { name: 'drawing-b', priority: 0 },
  ])
})
