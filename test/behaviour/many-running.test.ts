import { afterAll, beforeAll, expect, test } from 'vitest'
import { Database, type Queryable, statement } from '../../src/db/database.ts'
import { readPage } from '../../src/engine/views/job-list.ts'
import { loadTree } from '../../src/engine/views/tree.ts'
import { explain } from '../../src/engine/views/why.ts'
import { cancelJobs } from '../../src/store/cancel-jobs.ts'
import { findDrift } from '../../src/store/find-drift.ts'
import { findChildren, findJobs } from '../../src/store/find-jobs.ts'
import { listAttempts } from '../../src/store/list-attempts.ts'
import { loadBranches, loadBranchesFrom, loadBranchesInFlight } from '../../src/store/load-branches.ts'
import { loadPaths } from '../../src/store/load-path.ts'
import { watchJobs } from '../../src/store/watch-jobs.ts'
import { useDatabase } from '../support/database.ts'
import { type ManyRunning, plantManyRunning } from '../support/state/many-running.ts'

// No index finds a claim by its jobs. A read that looks for running jobs by id reads all claims, and must do so once. The figures with 100,000
// running jobs are in many-running.test.ts of test/long.

const database = useDatabase({ direct: true })
const RUNNING = 8000
const CHILDREN = 200

let db: Database
let planted: ManyRunning
let claims: number

beforeAll(async () => {
  db = new Database({ url: database.url, maxConnections: 1, applicationName: 'many' })
  planted = await plantManyRunning(database.sql, { count: RUNNING, size: 20, children: CHILDREN })
  const [row] = await database.sql<{ n: number }>('select count(*)::integer as n from sluice.claims')
  claims = row!.n
})
afterAll(() => db.close())

const READ = statement(
  'probe_claims_read',
  `select (seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as read, n_tup_upd::integer as written
     from pg_stat_xact_user_tables where relid = 'sluice.claims'::regclass`,
)

/** How many rows of claims it reads and writes. */
async function cost(ask: (tx: Queryable) => Promise<unknown>): Promise<{ read: number; written: number }> {
  return db.transaction(async (tx) => {
    const look = async () => (await tx.run<{ read: number; written: number }>(READ))[0]!
    const before = await look()
    await ask(tx)
    const after = await look()
    return { read: after.read - before.read, written: after.written - before.written }
  })
}

const spread = () => Array.from({ length: 50 }, (_, n) => planted.roots[Math.floor((n * RUNNING) / 50)]!)
const middle = () => planted.roots[RUNNING / 2]!
/** How many claims are opened by their key, once for each running job that is found. */
const reads: [string, number, (tx: Queryable) => Promise<unknown>][] = [
  ['one job', 1, (tx) => findJobs(tx, [middle()])],
  ['the attempts of one', 1, (tx) => listAttempts(tx, middle())],
  ['50 jobs', 50, (tx) => findJobs(tx, spread())],
  ['a page of all jobs', 50, (tx) => readPage(tx, {}, undefined, 50)],
  ['children', CHILDREN, (tx) => findChildren(tx, planted.fanOut, { limit: CHILDREN })],
  ['branches', CHILDREN, (tx) => loadBranches(tx, [planted.fanOut], CHILDREN)],
  ['branches by place', CHILDREN, (tx) => loadBranchesFrom(tx, planted.fanOut, 0, undefined, CHILDREN)],
  ['branches in flight', 20, (tx) => loadBranchesInFlight(tx, [planted.fanOut], 20, 400)],
  ['paths', 50, (tx) => loadPaths(tx, spread())],
  ['drift', 0, (tx) => findDrift(tx)],
]

test.each(reads)('reads all claims once for %s', async (_, opened, ask) => {
  expect((await cost(ask)).read).toBeLessThanOrEqual(claims + 2 * opened)
})

test('a page of running jobs reads few claims, and one by what failed before reads them a few times', async () => {
  const page = await cost((tx) => readPage(tx, { status: ['running'] }, undefined, 50))
  // One pass finds the jobs, one those that are assigned, and one opens what is shown.
  expect(page.read).toBeLessThanOrEqual(3 * claims + 100)
  const failed = await cost((tx) => readPage(tx, { status: ['running'], error: 'nothing' }, undefined, 50))
  expect(failed.read).toBeLessThanOrEqual(6 * claims)
})

test('a tree and its stream read all claims once', async () => {
  const tree = await cost((tx) => loadTree(tx, planted.fanOut))
  expect(tree.read).toBeLessThanOrEqual(claims + 2 * CHILDREN)
  // Each running job is looked for once more, among the claims of its worker.
  const stream = await cost((tx) => watchJobs(tx, [{ id: planted.fanOut, levels: 5 }], 2000))
  expect(stream.read).toBeLessThanOrEqual(claims + CHILDREN * (claims / 50 + 10))
})

test('why a job runs reads claims a few times', async () => {
  expect((await cost((tx) => explain(tx, middle()))).read).toBeLessThanOrEqual(4 * claims)
})

test('states of running jobs are read with one pass over the claims', async () => {
  const states = statement('probe_many_states', 'select state from sluice.jobs where id = any ($1)')
  expect((await cost((tx) => tx.run(states, [spread()]))).read).toBeLessThanOrEqual(claims)
  const queued = await cost((tx) => readPage(tx, { status: ['queued'] }, undefined, 50))
  expect(queued.read, 'a page of queued jobs').toBeLessThanOrEqual(claims)
})

test('jobs that do not run cost no look at claims', async () => {
  const others = planted.mixed.filter((_, n) => n % 3 < 2)
  expect((await cost((tx) => findJobs(tx, others))).read).toBe(0)
  const states = statement('probe_states', 'select state from sluice.jobs where id = $1')
  expect((await cost((tx) => tx.run(states, [planted.fanOut]))).read, 'the state of a fan-out').toBe(0)
  expect((await cost((tx) => tx.run(states, [others[0]]))).read, 'the state of one that has ended').toBe(0)
})

test('read together, jobs are as the view shows them', async () => {
  await database.sql(
    `update sluice.jobs set failures = 1, losses = 2, attempt = 4, error = 'before' where id = $1`,
    [planted.roots[7]],
  )
  await cancelJobs(db, planted.roots.slice(20, 23), 'enough')
  const ids = [
    ...planted.roots.slice(0, 40),
    ...planted.mixed,
    planted.fanOut,
    '999999999',
    planted.roots[3]!,
  ]
  const view = await database.sql('select * from sluice.jobs where id = any ($1) order by id', [ids])
  expect(view).toHaveLength(40 + 60 + 1)
  for (const some of [ids, ids.slice(0, 8), ids.slice(40, 100)])
    expect(await database.sql('select * from sluice.jobs_by_id_v1($1) order by id', [some])).toEqual(
      view.filter(({ id }) => some.includes(id)),
    )
})

test('a bulk cancel finds all claims in one pass, and writes each once', async () => {
  const ids = planted.roots.filter((_, n) => n % 8 === 0)
  const touched = await database.sql('select 1 from sluice.claims where ids && $1::bigint[]', [ids])
  const { read, written } = await cost((tx) => cancelJobs(tx, ids, 'enough'))
  expect(written).toBe(touched.length)
  // Locked, read and written by their keys.
  expect(read).toBeLessThanOrEqual(claims + 4 * touched.length)
  const [row] = await database.sql<{ n: number }>(
    'select count(*)::integer as n from sluice.running where id = any ($1) and cancel_at is not null',
    [ids],
  )
  expect(row!.n).toBe(ids.length)
})
