import { describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { withProducer } from '../support/producer.ts'
import * as state from '../support/state/audit.ts'

const database = useDatabase()
const apps = useApps(database)
const TASKS = [
  task({ name: 'plain', run: () => null }),
  task({ name: 'guarded', approval: true, deadline: '1h', run: () => null }),
  task({ name: 'urgent', priority: 7, lane: 'aged', run: () => null }),
]
const LANES = { aged: { ageing: '10s' }, second: {} }

const INSERT = 'select sluice.insert_alike_v1($1, $2, $3)::text[] as ids'

async function insertAlike(job: object, inputs: unknown, run = database.sql): Promise<string[]> {
  const values = [JSON.stringify(job), JSON.stringify(inputs), 'soon']
  return (await run<{ ids: string[] }>(INSERT, values))[0]!.ids
}

/** What is stored, with times as milliseconds after the submission. */
async function stored(ids: readonly string[]): Promise<unknown[]> {
  return database.sql(
    `select d.task, d.class_id, d.input, d.priority, d.deadline_ms, d.tags, d.submitted_by, d.trace, d.uses, d.key, q.state, q.keyed, q.attempt,
            q.rank + case when d.task = 'urgent' then -floor(extract(epoch from d.submitted_at) / 10)::integer else 0 end as rank,
            extract(epoch from q.ready_at - d.submitted_at) as ready, extract(epoch from q.deadline_at - d.submitted_at) as deadline
       from sluice.job_data d join sluice.queue q on q.id = d.id where d.id = any ($1) order by d.id`,
    [ids],
  )
}

test.each<[string, object]>([
  ['a plain job', { task: 'plain' }],
  ['an owner and a trace', { task: 'plain', by: 'ann', trace: '00-1-2-01' }],
  ['a priority, tags and a deadline', { task: 'plain', priority: -3, tags: ['a', 'b'], deadlineMs: 90_000 }],
  ['a delay', { task: 'plain', delayMs: 3_600_000, deadlineMs: 1000 }],
  ['another lane', { task: 'urgent', lane: 'second' }],
  ['a task with a priority in a lane that ages', { task: 'urgent' }],
  ['a task that needs approval', { task: 'guarded' }],
  ['no deadline where the task has one', { task: 'guarded', deadlineMs: 0 }],
])('jobs that differ in their input only are stored as each alone would be: %s', async (_, job) => {
  await apps.open({ tasks: TASKS, lanes: LANES })
  const inputs = [{ i: 1 }, null, 'text', [1, null], 0]
  const jobs = JSON.stringify(inputs.map((input) => ({ ...job, input })))
  const one = await database.sql<{ id: string }>(`select id from sluice.insert_jobs_v1($1, 'soon') id`, [
    jobs,
  ])
  const alike = await insertAlike(job, inputs)
  expect(alike).toHaveLength(inputs.length)
  const rows = await stored(alike)
  expect(rows).toEqual(await stored(one.map(({ id }) => id)))
  expect(rows.map((row) => (row as { input: unknown }).input)).toEqual(inputs)
})

describe('the function for such jobs', () => {
  test('rejects a key, an unknown task and a lane that does not exist, and stores nothing', async () => {
    await apps.open({ tasks: TASKS, lanes: LANES })
    await database.sql('delete from sluice.jobs')
    for (const [job, code] of [
      [{ task: 'plain', key: 'k' }, 'SL005'],
      [{ task: 'nothing' }, 'SL002'],
      [{ task: 'plain', lane: 'nowhere' }, 'SL003'],
    ] as const)
      await expect(insertAlike(job, [1, 2]), code).rejects.toMatchObject({ code })
    expect(await database.sql('select id from sluice.jobs')).toEqual([])
  })

  test('lets a role that may only submit store jobs, and leaves a line by its name whatever it says', async () => {
    const app = await apps.open({ tasks: TASKS, lanes: LANES })
    await state.emptyAudit(database.sql)
    await withProducer(database, async ({ role, sql }) => {
      const audit = { actor: 'olga', keyId: 1, requestId: 'r-1', reason: 'asked to' }
      const ids = await insertAlike({ task: 'plain', audit }, Array(150).fill(null), sql)
      const { entries } = await app.access.readAudit({})
      expect(entries.map(({ actor, target, after, reason }) => ({ actor, target, after, reason }))).toEqual([
        {
          actor: role,
          target: `jobs ${ids[0]} to ${ids.at(-1)}`,
          after: { jobs: 150, tasks: ['plain'] },
          reason: 'asked to',
        },
      ])
      expect((await app.listJobs({ submittedBy: role, limit: 500 })).map(({ id }) => id)).toEqual(
        [...ids].reverse(),
      )
    })
  })

  test('rejects a role that may not submit', async () => {
    await apps.open({ tasks: TASKS, lanes: LANES })
    await withProducer(database, async ({ role, sql }) => {
      await database.sql(`revoke insert on sluice.jobs from ${role}`)
      await expect(insertAlike({ task: 'plain' }, [1], sql)).rejects.toMatchObject({ code: '42501' })
    })
  })
})

test('a bulk submission with an author leaves one line for all of its jobs', async () => {
  const app = await apps.open({ tasks: TASKS, lanes: LANES })
  await state.emptyAudit(database.sql)
  const { submitter } = app.services
  const author = { actor: 'ann', requestId: 'r-2' }
  const jobs = await submitter.submitMany(
    await Promise.all(
      [1, 2, 3].map(async (n) => ({ ...(await app.services.toSubmission('plain', n, {}, 'ann')), author })),
    ),
  )
  const { entries } = await app.access.readAudit({ actor: 'ann' })
  expect(entries.map(({ target, after, requestId }) => ({ target, after, requestId }))).toEqual([
    {
      target: `jobs ${jobs[0]!.id} to ${jobs[2]!.id}`,
      after: { jobs: 3, tasks: ['plain'] },
      requestId: 'r-2',
    },
  ])
})
