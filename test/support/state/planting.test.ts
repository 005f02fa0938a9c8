import { readdir, readFile } from 'node:fs/promises'
import { beforeEach, describe, expect, test } from 'vitest'
import { useDatabase } from '../database.ts'

const database = useDatabase()
let classId = 0

beforeEach(async () => {
  await database.sql('delete from sluice.jobs')
  const [row] = await database.sql<{ id: number }>(
    `insert into sluice.classes (lane, task) values ('default', 'planted') on conflict do nothing returning id`,
  )
  classId ||= row!.id
})

async function insert(columns: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const row = { task: 'planted', class_id: classId, ...columns }
  const names = Object.keys(row)
  const [inserted] = await database.sql<{ id: string }>(
    `insert into sluice.jobs (${names.join()}) values (${names.map((_, n) => `$${n + 1}`).join()}) returning id`,
    Object.values(row),
  )
  return inserted!.id
}

/** The tables a job has a row in. */
async function places(id: string): Promise<string> {
  const [row] = await database.sql<{ names: string | null }>(
    `select string_agg(name, ' ' order by name) as names from (
       select 'queue' as name from sluice.queue where id = $1
       union all select 'running' from sluice.running where id = $1
       union all select 'outcomes' from sluice.outcomes where id = $1
       union all select 'keys' from sluice.job_keys where job_id = $1
       union all select 'data' from sluice.job_data where id = $1) t`,
    [id],
  )
  return row!.names ?? ''
}

async function job(id: string): Promise<Record<string, unknown>> {
  return (await database.sql('select * from sluice.jobs where id = $1', [id]))[0]!
}

test('puts an inserted job where its state says, with the defaults of a submission', async () => {
  const ready = await insert({ key: 'a' })
  expect(await places(ready)).toBe('data keys queue')
  expect(await job(ready)).toMatchObject({ state: 'ready', attempt: 0, rank: 0, priority: 0, key: 'a' })
  const running = await insert({ state: 'running', worker_id: 1, attempt: 1, started_at: new Date() })
  expect(await places(running)).toBe('data running')
  const failed = await insert({ state: 'failed', error: 'x', finished_at: new Date(), key: 'b' })
  expect(await places(failed)).toBe('data outcomes')
})

test('moves an updated job, and keeps what the statement does not change', async () => {
  const id = await insert({ key: 'a', priority: 3, input: { n: 1 }, deadline_ms: 5 })
  await database.sql(
    `update sluice.jobs set state = 'running', worker_id = 7, attempt = attempt + 1, started_at = now() where id = $1`,
    [id],
  )
  expect(await places(id)).toBe('data keys running')
  expect(await job(id)).toMatchObject({ state: 'running', worker_id: '7', attempt: 1, priority: 3 })
  await database.sql('update sluice.jobs set losses = 2, tags = $2 where id = $1', [id, ['t']])
  expect(await job(id)).toMatchObject({ losses: 2, tags: ['t'], input: { n: 1 } })
  await database.sql(
    `update sluice.jobs set state = 'completed', result = '5', finished_at = now() where id = $1`,
    [id],
  )
  expect(await places(id)).toBe('data outcomes')
  expect(await job(id)).toMatchObject({ state: 'completed', result: 5, attempt: 1, losses: 2 })
  await database.sql(`update sluice.jobs set state = 'ready', finished_at = null where id = $1`, [id])
  expect(await places(id)).toBe('data keys queue')
  expect(await job(id)).toMatchObject({ state: 'ready', attempt: 1 })
})

describe('a running job', () => {
  type Claim = { readonly ids: string[]; readonly errors: string[] | null; readonly losses: number[] | null }
  const claims = () =>
    database.sql<Claim>('select ids, losses, errors from sluice.claims where worker_id = 7 order by seq')
  const start = (id: string) =>
    database.sql(
      `update sluice.jobs set state = 'running', worker_id = 7, attempt = 1, started_at = '2026-01-01' where id = $1`,
      [id],
    )
  /** Jobs in one claim, as a cycle makes it. */
  async function together(count: number): Promise<string[]> {
    const ids: string[] = []
    for (let n = 0; n < count; n++) ids.push(await insert())
    await database.sql(
      `select sluice.start_jobs_v1(7, now(), 0, array(select ctid from sluice.queue where id = any ($1)))`,
      [ids],
    )
    return ids
  }

  test('gets a claim of its own, with a higher number than the others of its worker', async () => {
    const [first, second] = [await insert(), await insert()]
    await start(first)
    await start(second)
    expect(await claims()).toMatchObject([{ ids: [first] }, { ids: [second] }])
    const [row] = await database.sql(
      `select min(seq) = sluice.microseconds_v1('2026-01-01') as own, max(seq) - min(seq) as next from sluice.claims`,
    )
    expect(row).toEqual({ own: true, next: '1' })
  })

  test('changes in its claim, and the other jobs of the claim stay as they are', async () => {
    const [first, second, third] = (await together(3)) as [string, string, string]
    await database.sql(`update sluice.jobs set losses = 2, error = 'x' where id = $1`, [second])
    await database.sql(`update sluice.jobs set cancel_at = now(), error = 'stop' where id = $1`, [third])
    expect(await claims()).toEqual([
      { ids: [first, second, third], losses: [0, 2, 0], errors: [null, 'x', null] },
    ])
    expect(await job(first)).toMatchObject({ attempt: 1, losses: 0, error: null, cancel_at: null })
    expect(await job(second)).toMatchObject({ attempt: 1, losses: 2, error: 'x', cancel_at: null })
    expect(await job(third)).toMatchObject({ losses: 0, error: 'stop', cancel_at: expect.any(Date) })
    await database.sql('update sluice.jobs set losses = 0, error = null, cancel_at = null')
    expect(await claims()).toEqual([{ ids: [first, second, third], losses: null, errors: null }])
    expect(await database.sql('select cancels from sluice.claims')).toEqual([{ cancels: null }])
  })

  test('leaves its claim when it moves, starts at another time, changes hands or is deleted', async () => {
    const [first, second, third, fourth] = (await together(4)) as [string, string, string, string]
    await database.sql(`update sluice.jobs set started_at = now() + interval '1 s' where id = $1`, [first])
    expect(await claims()).toMatchObject([{ ids: [second, third, fourth] }, { ids: [first] }])
    await database.sql('update sluice.jobs set worker_id = 8 where id = $1', [second])
    await database.sql(`update sluice.jobs set state = 'ready', worker_id = null where id = $1`, [first])
    expect(await claims()).toMatchObject([{ ids: [third, fourth] }])
    await database.sql('delete from sluice.jobs where id = $1', [third])
    expect(await claims()).toMatchObject([{ ids: [fourth] }])
    await database.sql('delete from sluice.jobs')
    expect(await database.sql('select ids from sluice.claims')).toEqual([])
  })
})

test('removes every row of a deleted job', async () => {
  const id = await insert({ key: 'a' })
  await database.sql('delete from sluice.jobs where id = $1', [id])
  expect(await places(id)).toBe('')
})

test('rejects what the table of one row per job rejected', async () => {
  const id = await insert({ key: 'a' })
  await expect(insert({ key: 'a' })).rejects.toMatchObject({ code: '23505' })
  for (const change of [
    `state = 'running'`,
    `state = 'completed'`,
    'finished_at = now()',
    'class_id = null',
    `state = 'failed', finished_at = now()`,
  ])
    await expect(
      database.sql(`update sluice.jobs set ${change} where id = $1`, [id]),
      change,
    ).rejects.toMatchObject({ code: '23514' })
  expect(await places(id)).toBe('data keys queue')
})

test('moves a composite by its own row', async () => {
  const id = await insert({ composite: 'group', class_id: null, state: 'waiting' })
  await database.sql(`insert into sluice.graphs (hash, body) values ('planted', '{}')`)
  await database.sql(
    `insert into sluice.composites (job_id, graph, node) values ($1, 'planted', 'planted')`,
    [id],
  )
  expect(await places(id)).toBe('data queue')
  await database.sql(`update sluice.jobs set state = 'running', started_at = now() where id = $1`, [id])
  expect(await places(id)).toBe('data')
  expect(await job(id)).toMatchObject({ state: 'running', started_at: expect.any(Date) })
  await database.sql(`update sluice.jobs set cancel_at = now(), error = 'why' where id = $1`, [id])
  expect(await job(id)).toMatchObject({ error: 'why', cancel_at: expect.any(Date) })
  await database.sql(`update sluice.jobs set state = 'cancelled', finished_at = now() where id = $1`, [id])
  expect(await places(id)).toBe('data outcomes')
  expect(await database.sql('select ended from sluice.composites where job_id = $1', [id])).toEqual([
    { ended: true },
  ])
})

test('is for tests alone: nothing of Sluice writes to the view', async () => {
  const root = new URL('../../../', import.meta.url)
  const writers: string[] = []
  for (const folder of ['src/', 'sql/functions/', 'sql/migrations/']) {
    for (const path of await readdir(new URL(folder, root), { recursive: true })) {
      if (!/\.(ts|sql)$/.test(path) || path.endsWith('.test.ts')) continue
      const text = (await readFile(new URL(folder + path, root), 'utf8')).replace(/--.*$/gm, '')
      if (/\b(insert into|update|delete from)\s+sluice\.jobs\b/.test(text)) writers.push(folder + path)
    }
  }
  expect(writers).toEqual([])
})
