import { afterAll, expect, test } from 'vitest'
import { Database, statement } from '../../src/db/database.ts'
import { readPage } from '../../src/engine/views/job-list.ts'
import { loadTree } from '../../src/engine/views/tree.ts'
import { explain } from '../../src/engine/views/why.ts'
import { cancelJobs } from '../../src/store/cancel-jobs.ts'
import { findDrift } from '../../src/store/find-drift.ts'
import { findChildren, findJobs } from '../../src/store/find-jobs.ts'
import { listAttempts } from '../../src/store/list-attempts.ts'
import { listRunning } from '../../src/store/list-running.ts'
import { loadBranchesFrom } from '../../src/store/load-branches.ts'
import { repairOrphans } from '../../src/store/repair-orphans.ts'
import { watchJobs } from '../../src/store/watch-jobs.ts'
import { createDatabase } from '../support/database.ts'
import { plantManyRunning } from '../support/state/many-running.ts'

// How long reads and cancels take while 100,000 jobs run. The bounds in claims read are in many-running.test.ts of behaviour.

const RUNNING = Number(process.env.SLUICE_RUNNING ?? 100_000)
const ACTIVE_ROOTS = statement(
  'probe_active_roots',
  `select cardinality(sluice.active_roots_v1(jsonb_populate_record(null::sluice.admission, '{"max_active": 5, "max_queued": {}}')))`,
)
const databases: { drop(): Promise<void> }[] = []
afterAll(async () => {
  for (const database of databases) await database.drop()
})

test.each([64, 20])(`reads while ${RUNNING} jobs run in claims of %i`, async (size) => {
  const database = await createDatabase({ direct: true })
  databases.push(database)
  const db = new Database({ url: database.url, maxConnections: 1, applicationName: 'figures' })
  const few = await plantManyRunning(database.sql, { count: RUNNING, size, children: 1000 })
  const middle = few.roots[RUNNING / 2]!
  const spread = Array.from({ length: 50 }, (_, n) => few.roots[Math.floor((n * RUNNING) / 50)]!)
  const asks: Record<string, () => Promise<unknown>> = {
    'one running job': () => findJobs(db, [middle]),
    'its attempts': () => listAttempts(db, middle),
    why: () => explain(db, middle),
    '50 running jobs by id': () => findJobs(db, spread),
    'page of running jobs': () => readPage(db, { status: ['running'] }, undefined, 50),
    'page of mixed jobs': () => readPage(db, {}, undefined, 50),
    'page of active jobs': () => readPage(db, { status: ['queued', 'running'] }, undefined, 50),
    tree: () => loadTree(db, few.fanOut, { depth: 2 } as never),
    'children of a tree': () => findChildren(db, few.fanOut, { limit: 1000 }),
    'children by place': () => loadBranchesFrom(db, few.fanOut, 0, undefined, 1000),
    'stream of one': () => watchJobs(db, [{ id: middle, levels: 0 }], 2000),
    'stream of a tree': () => watchJobs(db, [{ id: few.fanOut, levels: 5 }], 2000),
    'list of what runs': () => listRunning(db, 1000),
    'active roots': () => db.run(ACTIVE_ROOTS),
    'doctor: drift': () => findDrift(db),
    reconcile: () => repairOrphans(db),
  }
  const figures: Record<string, number> = {}
  for (const [name, ask] of Object.entries(asks)) {
    const took: number[] = []
    for (let n = 0; n < 8; n++) {
      const began = performance.now()
      await ask()
      took.push(performance.now() - began)
      if (took.reduce((a, b) => a + b) > 4000) break
    }
    figures[name] = Math.round(10 * took.sort((a, b) => a - b)[Math.floor(took.length / 3)]!) / 10
  }
  const thousand = Array.from({ length: 1000 }, (_, n) => few.roots[Math.floor((n * RUNNING) / 1000)]!)
  const began = performance.now()
  const cancelled = await cancelJobs(db, thousand, 'measured')
  figures['cancel 1000'] = Math.round(performance.now() - began)
  expect(cancelled).toHaveLength(1000)
  const again = performance.now()
  await cancelJobs(db, [middle], 'measured')
  figures['cancel 1'] = Math.round(10 * (performance.now() - again)) / 10
  console.log(JSON.stringify({ size, ...figures }, null, 1))
  await db.close()
})
