import { beforeAll, describe, expect, test } from 'vitest'
import { PAGE_LOOK, readPage } from '../../src/engine/views/job-list.ts'
import { type Flow, task, workflow } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { JOB_TABLES } from '../support/state/jobs.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)
const ROWS = 60_000

// One in 300 is of a rare task and owner; one in 400 failed.
beforeAll(async () => {
  const app = await apps.open({
    tasks: ['common', 'rare'].map((name) => task({ name, run: () => null })),
  })
  await database.sql(
    `insert into sluice.jobs (task, class_id, state, submitted_at, finished_at, error, tags, submitted_by, key)
     select t.name, t.class_id, (case when n % 400 = 1 then 'failed' else 'completed' end)::sluice.job_state, s.at, s.at,
            case when n % 400 = 1 then 'broke at ' || n end, case when n = 5 then array['needle'] end,
            case when n % 300 = 0 then 'ann' else 'bob' end, case when n % 1000 = 0 then 'k' || n end
       from generate_series(1, $1::integer) n
       join sluice.tasks t on t.name = case when n % 300 = 0 then 'rare' else 'common' end
      cross join lateral (select now() - make_interval(mins => $1 - n) as at) s
      order by n`,
    [ROWS],
  )
  await database.sql(`analyze ${JOB_TABLES}`)
  await app.submitMany('common', [1, 2, 3], { runAt: '1h' })
})

interface Cost {
  readonly blocks: number
  readonly rows: number
}

async function cost(filter: object, before: number | null = null): Promise<Cost> {
  const values = [JSON.stringify(filter), before, 50, PAGE_LOOK]
  const [page] = await database.sql<{ rows: number }>(
    'select cardinality(ids) as rows from sluice.list_jobs_v1($1, $2, $3, $4)',
    values,
  )
  const [plan] = await database.sql<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
    'explain (analyze, buffers, format json) select * from sluice.list_jobs_v1($1, $2, $3, $4)',
    values,
  )
  const { 'Shared Hit Blocks': hit = 0, 'Shared Read Blocks': read = 0 } = plan!['QUERY PLAN'][0].Plan
  return { blocks: hit + read, rows: page!.rows }
}

const day = 24 * 3_600_000
const direct: [string, object][] = [
  ['everything', {}],
  ['completed', { states: ['completed'] }],
  ['failed', { states: ['failed'] }],
  ['a common task', { task: 'common' }],
  ['a rare task', { task: 'rare' }],
  ['a common owner', { by: 'bob' }],
  ['a rare owner', { by: 'ann' }],
  ['a key', { key: 'k7000' }],
  ['active ones behind all the others', { states: ['scheduled', 'ready', 'running'] }],
  [
    'an hour long ago',
    { submittedFrom: new Date(Date.now() - 20 * day), submittedTo: new Date(Date.now() - 19.9 * day) },
  ],
]

describe('a page that an index answers touches few blocks', () => {
  test.each(direct)('%s', async (_, filter) => {
    // The first look of a session also reads the catalogue.
    await cost(filter)
    const { blocks, rows } = await cost(filter)
    expect(rows).toBeGreaterThan(0)
    // A row of a sparse index is a block of its own, and each is looked at twice at most.
    expect(blocks).toBeLessThan(300)
  })
})

test('a page that nothing answers is bounded too', async () => {
  for (const filter of [
    { tag: 'needle' },
    { tag: 'nowhere' },
    { error: 'nothing' },
    { task: 'common', tag: 'nowhere' },
  ])
    expect([filter, (await cost(filter, ROWS)).blocks < 3000]).toEqual([filter, true])
})

test('the first page reaches past the children of a wide fan-out to the roots below them', async () => {
  await database.sql(
    `insert into sluice.jobs (task, class_id, state, submitted_at, finished_at, parent_id, root_id, idx)
     select 'common', class_id, 'completed', now(), now(), 1, 1, n from generate_series(1, $1::integer) n, sluice.tasks where name = 'common'`,
    [2 * PAGE_LOOK + 1],
  )
  const { calls } = (await apps.open()).services
  const { jobs, next } = await readPage(calls, {}, undefined, 50)
  expect([jobs.length, jobs.some(({ parentId }) => parentId !== null), next === null]).toEqual([
    50,
    false,
    false,
  ])
})

interface Look {
  readonly ids: readonly string[]
  readonly next: string | null
}

async function look(before: string | null, limit: number, rows: number): Promise<Look> {
  const text = 'select ids, next from sluice.list_jobs_v1($1, $2, $3, $4)'
  return (await database.sql<Look & Record<string, unknown>>(text, ['{}', before, limit, rows]))[0]!
}

test('a look that ends among the children of a fan-out goes on below the last of them, however many there are', async () => {
  const [made] = await database.sql<{ parent: string; first: string }>(
    `with parent as (
       insert into sluice.jobs (task, composite, state, submitted_at, finished_at) values ('wide', 'fanout', 'completed', now(), now()) returning id
     ), children as (
       insert into sluice.jobs (task, class_id, state, submitted_at, finished_at, parent_id, root_id, idx)
       select 'common', t.class_id, 'completed', now(), now(), p.id, p.id, n
         from parent p, generate_series(0, $1::integer) n, sluice.tasks t where t.name = 'common' order by n
       returning id
     ) select (select id from parent) as parent, min(id) as first from children`,
    [3 * PAGE_LOOK],
  )
  const { ids, next } = await look(null, 50, PAGE_LOOK)
  expect([ids, next]).toEqual([[], made!.first])
  expect((await look(next, 50, PAGE_LOOK)).ids).toEqual([made!.parent])
})

test('no root is left out between children, whatever lies around it', async () => {
  const add = async (parent: string | null, idx: number | null, kind: string | null = null) => {
    const [row] = await database.sql<{ id: string }>(
      `insert into sluice.jobs (task, class_id, composite, state, submitted_at, finished_at, parent_id, root_id, idx)
       select 'common', class_id, $3::sluice.composite_kind, 'completed', now(), now(), $1, $1, $2 from sluice.tasks where name = 'common' returning id`,
      [parent, idx, kind],
    )
    return row!.id
  }
  const fanOut = await add(null, null, 'fanout')
  const roots = [fanOut]
  const walk = async (rows: number) => {
    const found: string[] = []
    for (let before: string | null = null; before === null || BigInt(before) > BigInt(fanOut); ) {
      const page: Look = await look(before, 3, rows)
      found.push(...page.ids)
      before = page.next
    }
    return found.filter((id) => BigInt(id) >= BigInt(fanOut)).reverse()
  }
  // Runs of 1 to 9 children with a root or two between them.
  for (let idx = 0, run = 1; run < 10; run += 1) {
    for (let n = 0; n < run; n += 1, idx += 1) await add(fanOut, idx)
    for (let n = 0; n <= run % 2; n += 1) roots.push(await add(null, null))
  }
  for (const rows of [1, 2, 3, 5, 8]) expect(await walk(rows), `${rows} rows a look`).toEqual(roots)
  // As far apart as their places, and a root between them: two that were made again, and two steps of a workflow.
  const again = 'update sluice.jobs set superseded_at = now() where parent_id = $1 and idx in (30, 32)'
  await database.sql(again, [fanOut])
  const workflow = await add(null, null, 'workflow')
  roots.push(workflow)
  for (const parent of [fanOut, workflow]) {
    await add(parent, 30)
    roots.push(await add(null, null))
    await add(parent, 32)
    for (const rows of [1, 2, 3]) expect(await walk(rows), `${rows} rows a look, ${parent}`).toEqual(roots)
  }
})

// What lists rely on where they pass over the children of a fan-out.
test('a fan-out makes its children in the order of their places', async () => {
  const common = task({ name: 'common', run: (_: number) => null })
  const items = Array.from({ length: 1500 }, (_, n) => n)
  const wide = workflow({
    name: 'wide',
    steps: (flow: Flow<{ items: number[] }>) => {
      flow.each('items', flow.input.items, common, (item) => item, { concurrency: 1 })
    },
  })
  const app = await apps.open({ tasks: [common], workflows: [wide] })
  await app.work({ capacity: 50 })
  const { id } = await app.submit('wide', { items })
  const made = () =>
    database.sql<{ id: string; idx: number }>(
      `select j.id, j.idx from sluice.jobs j join sluice.jobs f on f.id = j.parent_id
        where j.root_id = $1 and f.composite = 'fanout' order by j.id`,
      [id],
    )
  const children = await until(async () => {
    const rows = await made()
    return rows.length === items.length && rows
  }, 'all children to be made')
  expect(children.map(({ idx }) => idx)).toEqual(items)
  await app.cancel(id)
  await until(async () => (await app.getJob(id)).state === 'cancelled', 'the workflow to end')
})
