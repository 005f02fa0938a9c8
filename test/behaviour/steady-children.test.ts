import { expect, test } from 'vitest'
import { useCycles } from '../support/cycle-by-hand.ts'
import { useDatabase } from '../support/database.ts'

// Children are planted below a fan-out that no advance has made, so commits are not checked here.

const database = useDatabase()
const { steady: cycle, submit } = useCycles(database)

const UNSTEADY = [{ id: null, seq: null, class_id: null, assigned: null, report: { unsteady: true } }]

const told = (parent: string) =>
  database.sql('select completed, failed from sluice.wakeups where job_id = $1', [parent])

/** Makes the jobs of the queue children of a fan-out, with a window or without. */
async function putBelow(window: number | null): Promise<string> {
  const [parent] = await database.sql<{ id: string }>(
    `insert into sluice.job_data (task, composite) values ('fan', 'fanout') returning id`,
  )
  await database.sql(
    `insert into sluice.graphs (hash, body) values ('none', '{"workflows": {}}') on conflict do nothing`,
  )
  await database.sql(
    `insert into sluice.composites (job_id, graph, node, started_at, window_size, total) values ($1, 'none', 'fan', now(), $2, 2)`,
    [parent!.id, window],
  )
  await database.sql(
    'update sluice.job_data set parent_id = $1, root_id = $1, idx = id where id in (select id from sluice.queue)',
    [parent!.id],
  )
  await database.sql('update sluice.queue set parent_id = $1, idx = id', [parent!.id])
  return parent!.id
}

test('tells the parents of the children that completed', async () => {
  await submit(2)
  const parent = await putBelow(null)
  const rows = await cycle()
  expect(await cycle({ known: rows[0]!.seq, done: rows })).toEqual([])
  expect(await told(parent)).toEqual([{ completed: 2, failed: 0 }])
})

const RESYNC = [{ id: null, seq: null, class_id: null, assigned: null, report: { resync: true } }]

test('tells the parent of a child that completed beside a job that the worker does not hold', async () => {
  await submit(2)
  const parent = await putBelow(null)
  const rows = await cycle()
  expect(await cycle({ known: rows[0]!.seq, done: [rows[0]!, { ...rows[0]!, id: '999999' }] })).toEqual(
    RESYNC,
  )
  expect(await told(parent)).toEqual([{ completed: 1, failed: 0 }])
})

test('tells the parent of a child that completed beside one that already has an outcome', async () => {
  await submit(2)
  const parent = await putBelow(null)
  const rows = await cycle()
  await database.sql(
    `insert into sluice.outcomes (id, class_id, state, ready_at, started_at, attempt)
     select d.id, d.class_id, 'completed', now(), now(), 1 from sluice.job_data d where d.id = $1`,
    [rows[1]!.id],
  )
  const back = [[rows[1]!, { ending: 'retry' }]] as const
  expect(await cycle({ known: rows[0]!.seq, done: [rows[0]!], back })).toEqual(RESYNC)
  expect(await told(parent)).toEqual([{ completed: 1, failed: 0 }])
  // The view sluice.jobs, through which the jobs are removed, expects each of them in one table.
  await database.sql('delete from sluice.outcomes')
})

test('is not steady where a child that ends has a place in a window', async () => {
  await submit(2)
  const parent = await putBelow(1)
  const rows = await cycle()
  expect(await cycle({ known: rows[0]!.seq, done: rows })).toEqual(UNSTEADY)
  expect(await told(parent)).toEqual([])
})
