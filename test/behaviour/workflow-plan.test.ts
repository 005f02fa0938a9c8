import { afterAll, beforeAll, expect, test } from 'vitest'
import { Database, type Queryable, statement } from '../../src/db/database.ts'
import { loadOutcomes } from '../../src/store/load-outcomes.ts'
import { useDatabase } from '../support/database.ts'

// PostgreSQL caches the plan of a prepared statement. One that it made while a table was empty must not read the whole table later.

const database = useDatabase({ direct: true })
const PARENTS = 2000

let db: Database
const parents: string[] = []

beforeAll(async () => {
  db = new Database({ url: database.url, maxConnections: 1, applicationName: 'plans' })
  for (const table of ['job_data', 'outcomes', 'composites'])
    await database.sql(`alter table sluice.${table} set (autovacuum_enabled = false)`)
})
afterAll(() => db.close())

const READ = statement(
  'probe_jobs_read',
  `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as read from pg_stat_xact_user_tables
    where relid in ('sluice.job_data'::regclass, 'sluice.outcomes'::regclass, 'sluice.composites'::regclass)`,
)

/** How many rows of jobs, outcomes and composites it reads. */
async function cost(ask: (tx: Queryable) => Promise<unknown>): Promise<number> {
  return db.transaction(async (tx) => {
    const look = async () => (await tx.run<{ read: number }>(READ))[0]!.read
    const before = await look()
    await ask(tx)
    return (await look()) - before
  })
}

test('reads the results of children without reading those of other workflows, with a plan cached on empty tables', async () => {
  const wanted = (among: readonly string[]) =>
    among.flatMap((parent) => [0, 1].map((index) => ({ parent, index })))
  // A prepared statement gets its lasting plan after five runs.
  for (let run = 0; run < 8; run++) await loadOutcomes(db, wanted(['1', '2', '3']))

  const made = await database.sql<{ id: string }>(
    `insert into sluice.job_data (task, composite) select 'wide', 'workflow' from generate_series(1, $1::integer) returning id`,
    [PARENTS],
  )
  parents.push(...made.map(({ id }) => id))
  await database.sql(
    `with children as (
       insert into sluice.job_data (task, parent_id, root_id, idx)
       select 'step', p, p, n from unnest($1::bigint[]) p cross join generate_series(0, 2) n order by p, n returning id, idx)
     insert into sluice.outcomes (id, state, ready_at, result) select id, 'completed', now(), to_jsonb(idx) from children`,
    [parents],
  )
  const asked = parents.slice(0, 200)
  let results: readonly { readonly parent: string; readonly index: number; readonly result: unknown }[] = []
  const read = await cost(async (tx) => {
    results = await loadOutcomes(tx, wanted(asked))
  })
  expect(results).toHaveLength(2 * asked.length)
  expect(results.every(({ index, result }) => result === index)).toBe(true)
  expect(read).toBeLessThanOrEqual(2 * results.length)
})

/** As `sluice.cycle_v1` calls it, with its settings. */
const PASS = statement(
  'probe_pass_places',
  `select p.picked from sluice.pass_window_slots_v1($1::bigint[], array_fill(0, array[cardinality($1::bigint[])]), '{}', '{}', '{}', '{}', 0, '{}') p`,
)
const CYCLE = [
  'plan_cache_mode = force_generic_plan',
  ...['seqscan', 'bitmapscan', 'sort', 'hashjoin', 'mergejoin'].map((each) => `enable_${each} = off`),
]

test('passes places on without reading other workflows, with a plan cached on empty tables', async () => {
  const pass = (tx: Queryable, ended: readonly string[]) => tx.run(PASS, [ended])
  await db.transaction(async (tx) => {
    for (const each of CYCLE)
      await tx.run(statement(`probe_set_${each.split(' ')[0]}`, `set local ${each}`), [])
    for (let run = 0; run < 8; run++) await pass(tx, ['1'])
  })
  await database.sql(
    `insert into sluice.graphs (hash, body) values ('none', '{"workflows": {}}') on conflict do nothing`,
  )
  await database.sql(
    `insert into sluice.composites (job_id, graph, node, started_at) select p, 'none', 'wide', now() from unnest($1::bigint[]) p`,
    [parents],
  )
  const ended = parents.slice(0, 20)
  expect(await cost((tx) => pass(tx, ended))).toBeLessThanOrEqual(ended.length)
})
