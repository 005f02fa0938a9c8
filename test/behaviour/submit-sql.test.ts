import pg from 'pg'
import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const apps = useApps(database)

const resize = task({
  name: 'resize',
  priority: 2,
  run: (input: { url: string } | null) => input?.url ?? 'none',
})

async function submit(text: string, values: unknown[] = []): Promise<string> {
  return (await database.sql<{ id: string }>(`select sluice.submit(${text}) as id`, values))[0]!.id
}

test('a job submitted from plain SQL runs like any other', async () => {
  const app = await apps.open({ tasks: [resize] })
  await app.work()

  const id = await submit(`'resize', '{"url": "a"}'`)

  expect(await app.job(id).result()).toBe('a')
  const role = (await database.sql<{ role: string }>('select session_user::text as role'))[0]!.role
  expect(await app.getJob(id)).toMatchObject({ input: { url: 'a' }, priority: 2, submittedBy: role })
})

test('every option of a submission has its argument', async () => {
  const app = await apps.open({ tasks: [resize] })
  const id = await submit(
    `'resize', $1, key => $2, priority => -5, lane => 'system', run_at => now() + interval '1 hour',
     deadline => '90 minutes', tags => array['x', 'y'], submitted_by => 'ada'`,
    [JSON.stringify({ url: 'b' }), 'key b'],
  )

  const job = await app.getJob(id)
  expect(job).toMatchObject({
    input: { url: 'b' },
    key: 'key b',
    priority: -5,
    lane: 'system',
    state: 'scheduled',
    tags: ['x', 'y'],
    submittedBy: 'ada',
  })
  expect(job.readyAt.getTime() - job.submittedAt.getTime()).toBeGreaterThan(3_590_000)
  expect(job.deadlineAt!.getTime() - job.readyAt.getTime()).toBe(5_400_000)
})

test('without input, or with null in it, it is stored as given', async () => {
  const app = await apps.open({ tasks: [resize] })
  expect((await app.getJob(await submit(`'resize'`))).input).toBeNull()
  expect((await app.getJob(await submit(`'resize', '{"url": null, "list": [null]}'`))).input).toEqual({
    url: null,
    list: [null],
  })
})

test('a key attaches across SQL and library, and another input is refused with its own SQLSTATE', async () => {
  const app = await apps.open({ tasks: [resize] })
  const { id } = await app.submit(resize, { url: 'k' }, { key: 'k' })

  expect(await submit(`'resize', '{"url": "k"}', key => 'k'`)).toBe(id)
  await expect(submit(`'resize', '{"url": "other"}', key => 'k'`)).rejects.toMatchObject({
    code: 'SL004',
    detail: id,
  })
  const own = await submit(`'resize', key => 'n'`)
  expect(await app.submit(resize, null, { key: 'n' })).toMatchObject({ id: own, attached: true })
})

test('it belongs to the caller\u2019s transaction, and the hint comes with the commit', async () => {
  const app = await apps.open({ tasks: [resize] })
  await app.work()
  const client = new pg.Client(database.url)
  await client.connect()
  try {
    await client.query('begin')
    const { rows } = await client.query<{ id: string }>(
      `select sluice.submit('resize', '{"url": "gone"}') as id`,
    )
    await client.query('rollback')
    await client.query('begin')
    const kept = await client.query<{ id: string }>(`select sluice.submit('resize', '{"url": "kept"}') as id`)
    await client.query('commit')

    expect(await app.job(kept.rows[0]!.id).result()).toBe('kept')
    await expect(app.getJob(rows[0]!.id)).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
  } finally {
    await client.end()
  }
})

test.each([
  [`'nobody'`, 'SL002', "no task named 'nobody'"],
  [`null`, 'SL002', 'no task named null'],
  [`'resize', lane => 'nowhere'`, 'SL003', 'there is no lane "nowhere"'],
  [`'resize', priority => 1000001`, 'SL005', 'priority: 1000001 must be from -1000000 to 1000000'],
  [`'resize', key => ''`, 'SL005', 'key: must be a text of 1 to 500 characters'],
  [`'resize', key => repeat('k', 501)`, 'SL005', 'key: must be a text'],
  [`'resize', run_at => 'infinity'`, 'SL005', 'run_at: must be a time before the year 10000'],
  [`'resize', deadline => '-1 hour'`, 'SL005', 'deadline: must be from 0'],
  [
    `'resize', deadline => '200 years'`,
    'SL005',
    'deadline: must be from 0, which is no deadline, to 100 years',
  ],
  [`'resize', tags => array['a', null]`, 'SL005', 'tags: must be at most 50 texts'],
  [`'resize', tags => array['']`, 'SL005', 'tags: must be at most 50 texts'],
  [`'resize', submitted_by => ''`, 'SL005', 'submitted_by: must be a text of 1 to 200 characters'],
])('submit(%s) is refused with %s', async (text, code, message) => {
  await apps.open({ tasks: [resize] })
  const before = await database.sql('select 1 from sluice.jobs')

  await expect(submit(text)).rejects.toMatchObject({ code, message: expect.stringContaining(message) })
  expect(await database.sql('select 1 from sluice.jobs')).toHaveLength(before.length)
})

test('100 clients that submit one key through SQL get one job', async () => {
  const app = await apps.open({ tasks: [resize] })
  const pool = new pg.Pool({ connectionString: database.url, max: 20 })
  try {
    const answers = await Promise.all(
      Array.from({ length: 100 }, () =>
        pool.query(`select sluice.submit('resize', '[1]', key => 'many') as id`),
      ),
    )
    expect(new Set(answers.map((answer) => answer.rows[0].id)).size).toBe(1)
    expect(await app.listJobs({ key: 'many' })).toHaveLength(1)
  } finally {
    await pool.end()
  }
})
