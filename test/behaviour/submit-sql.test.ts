import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { withProducer } from '../support/producer.ts'
import * as state from '../support/state/audit.ts'

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
  [`'resize', lane => 'nowhere'`, 'SL003', 'lane "nowhere" does not exist'],
  [`'resize', priority => 1000001`, 'SL005', 'priority: 1000001 must be from -1000000 to 1000000'],
  [`'resize', key => ''`, 'SL005', 'key: must be a text of 1 to 500 characters'],
  [`'resize', key => repeat('k', 501)`, 'SL005', 'key: must be a text'],
  [`'resize', run_at => 'infinity'`, 'SL005', 'run_at: must be a time before the year 10000'],
  [`'resize', deadline => '-1 hour'`, 'SL005', 'deadline: must be from 0'],
  [
    `'resize', deadline => '200 years'`,
    'SL005',
    'deadline: must be from 0, which is no deadline, to 36500 days',
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

describe('a role that may only submit', () => {
  const other = task({ name: 'other', run: () => null })
  const FORGED = { actor: 'olga', keyId: 1, requestId: 'r-1', tasks: ['payout'] }

  test('leaves a line by its own name for all that a statement stores, whatever it says', async () => {
    const app = await apps.open({ tasks: [resize, other] })
    await withProducer(database, async ({ role, sql }) => {
      const store = async (jobs: object[], from: string) =>
        (await sql<{ id: string }>(`select id::text from ${from}`, [JSON.stringify(jobs)])).map(
          ({ id }) => id,
        )
      const submitAll = (jobs: object[]) => store(jobs, `sluice.submit_v1($1, 'commit') order by ord`)
      const [plain] = await submitAll([{ task: 'resize', key: 'p' }])
      const [forged] = await submitAll([
        { task: 'resize', by: 'ann', audit: { ...FORGED, reason: 'asked to' } },
      ])
      const many = await submitAll([
        { task: 'resize', key: 'p', audit: FORGED },
        { task: 'other', by: 'ann', audit: FORGED },
        { task: 'other' },
      ])
      expect(many[0]).toBe(plain)
      await submitAll([{ task: 'resize', key: 'p', audit: FORGED }])
      const [inserted] = await store([{ task: 'other' }], `sluice.insert_jobs_v1($1, 'soon') id`)
      const [called] = await sql<{ id: string }>(`select sluice.submit('other')::text as id`)

      const { entries } = await app.access.readAudit({ actor: role })
      expect(entries.map(({ target, after, reason }) => [target, after, reason])).toEqual([
        [`job ${called!.id}`, { task: 'other' }, null],
        [`job ${inserted}`, { task: 'other' }, null],
        [`jobs ${many[1]} to ${many[2]}`, { jobs: 2, tasks: ['other'] }, null],
        [`job ${forged}`, { task: 'resize', by: 'ann' }, 'asked to'],
        [`job ${plain}`, { task: 'resize', key: 'p' }, null],
      ])
      for (const { action, keyId, requestId } of entries)
        expect({ action, keyId, requestId }).toEqual({ action: 'job.submit', keyId: null, requestId: null })
      expect((await app.access.readAudit({ actor: 'olga' })).entries).toEqual([])
    })
  })

  test('writes no line for jobs that it did not store', async () => {
    const app = await apps.open({ tasks: [resize] })
    const { id } = await app.submit(resize, null)
    await state.emptyAudit(database.sql)
    await withProducer(database, async ({ sql }) => {
      const jobs = JSON.stringify([{ task: 'payout', audit: FORGED }])
      for (const job of [id, '999999'])
        await sql('select sluice.audit_submissions_v1($1, array[$2]::bigint[])', [jobs, job])
      expect(await state.countAudit(database.sql)).toEqual({})
      await expect(
        sql(`insert into sluice.audit (actor, action) values ('olga', 'x')`),
      ).rejects.toMatchObject({
        code: '42501',
      })
    })
  })

  test('cannot store jobs past admission and audit', async () => {
    await apps.open({ tasks: [resize] })
    await withProducer(database, async ({ sql }) => {
      const jobs = JSON.stringify([{ task: 'resize' }])
      for (const call of ['sluice.store_jobs_v1($1)', `sluice.insert_one_v1($1::jsonb -> 0)`])
        await expect(sql(`select ${call}`, [jobs]), call).rejects.toMatchObject({ code: '42501' })
      await expect(sql(`insert into sluice.jobs (task) values ('resize')`)).rejects.toThrow()
    })
  })

  test('is judged by the role that it has chosen with SET ROLE', async () => {
    await apps.open({ tasks: [resize] })
    await withProducer(database, async ({ role }) => {
      const other = `${role}_other`
      const client = new pg.Client(database.directUrl)
      await client.connect()
      try {
        await client.query(
          `create role ${other}; grant usage on schema sluice to ${other}; set role ${other}`,
        )
        await expect(client.query(`select sluice.submit('resize')`)).rejects.toMatchObject({ code: '42501' })
        await client.query(`set role ${role}`)
        expect((await client.query(`select sluice.submit('resize') as id`)).rowCount).toBe(1)
      } finally {
        await client.query(`reset role; drop owned by ${other}; drop role ${other}`)
        await client.end()
      }
    })
  })
})
