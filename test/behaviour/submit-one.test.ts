import { afterEach, describe, expect, test } from 'vitest'
import { task, workflow } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { withProducer } from '../support/producer.ts'
import { forgetAdmission } from '../support/state/admission.ts'
import * as state from '../support/state/audit.ts'
import { forgetJobs } from '../support/state/jobs.ts'

const database = useDatabase()
const apps = useApps(database)
const TASKS = [
  task({ name: 'plain', run: () => null }),
  task({ name: 'guarded', approval: true, deadline: '1h', run: () => null }),
  task({ name: 'urgent', priority: 7, lane: 'aged', deadline: '2h', run: () => null }),
  task({ name: 'owned', keys: 'owner', run: () => null }),
]
const LANES = { aged: { ageing: '10s' } }

afterEach(async () => {
  await forgetAdmission(database.sql)
  await forgetJobs(database.sql)
})

/** As `src/store/insert-job.ts` has it. */
async function insertOne(
  name: string,
  input: unknown,
  owner: string | null,
  run = database.sql,
  author: object | null = null,
) {
  const values = [name, JSON.stringify(input), owner, author === null ? null : JSON.stringify(author)]
  const [row] = await run<{ id: string }>(
    `select sluice.insert_job_v1($1, $2, $3, $4, 'soon')::text as id`,
    values,
  )
  return row!.id
}

/** What is stored, with times relative to the submission, and without what tells one job from another. */
async function stored(id: string): Promise<object> {
  const [row] = await database.sql<{ data: object; queue: object; times: object }>(
    `select to_jsonb(d) - '{id,submitted_at}'::text[] as data,
            to_jsonb(q) - '{id,ready_at,deadline_at,rank}'::text[] as queue,
            jsonb_build_array(q.ready_at - d.submitted_at, q.deadline_at - d.submitted_at,
              q.rank + case when d.task = 'urgent' then -floor(extract(epoch from d.submitted_at) / 10)::integer else 0 end) as times
       from sluice.job_data d join sluice.queue q on q.id = d.id where d.id = $1`,
    [id],
  )
  return row!
}

describe('the function for one job of which nothing is said but task, input and owner', () => {
  test.each(TASKS.map(({ name }) => name))('stores it as the one for any jobs does: %s', async (name) => {
    await apps.open({ tasks: TASKS, lanes: LANES })
    for (const [input, owner] of [
      [{ i: 1 }, 'ann'],
      [null, null],
      ['text', 'bob'],
      [0, null],
    ] as const) {
      const jobs = JSON.stringify([{ task: name, input, ...(owner !== null && { by: owner }) }])
      const [any] = await database.sql<{ id: string }>(
        `select id::text from sluice.insert_jobs_v1($1, 'soon') id`,
        [jobs],
      )
      const one = await insertOne(name, input, owner)
      expect(await stored(one)).toEqual(await stored(any!.id))
    }
  })

  test('rejects unknown names and workflows, and stores nothing', async () => {
    const shipping = workflow({
      name: 'shipping',
      steps: (flow) => flow.step('pack', TASKS[0]!).result,
    })
    const app = await apps.open({ tasks: TASKS, lanes: LANES, workflows: [shipping] })
    await expect(insertOne('nothing', 1, 'ann')).rejects.toMatchObject({ code: 'SL002' })
    await expect(insertOne('shipping', 1, 'ann')).rejects.toMatchObject({ code: 'SL006' })
    expect(await database.sql('select id from sluice.jobs')).toEqual([])
    await expect(app.submit('nothing', 1)).rejects.toMatchObject({ code: 'TASK_NOT_FOUND' })
    expect((await app.submit('shipping', null)).attached).toBe(false)
  })

  test.each<[string, object, boolean]>([
    ['active jobs', { maxActive: 1 }, false],
    ['jobs of an owner', { maxPerOwner: 1 }, false],
    ['queued jobs of its task', { maxQueued: { plain: 1 } }, false],
    ['queued jobs of another task', { maxQueued: { urgent: 1 } }, true],
  ])('obeys a limit of %s', async (_, limits, isStored) => {
    const app = await apps.open({ tasks: TASKS, lanes: LANES })
    await app.setAdmission(limits)
    const submit = () => insertOne('plain', 1, 'ann')
    await submit()
    if (isStored) await submit()
    else await expect(submit()).rejects.toMatchObject({ code: 'SL007' })
    expect(await app.listJobs({})).toHaveLength(isStored ? 2 : 1)
  })

  test.each([
    ['with all that can be said', { actor: 'ann', keyId: '7', requestId: 'r-1', reason: 'a try' }, 'bob'],
    ['for its owner', { actor: 'ann' }, 'ann'],
    ['without an owner', { actor: 'ann' }, null],
  ] as const)('leaves the same line in the audit as the one for any jobs: %s', async (_, author, owner) => {
    const app = await apps.open({ tasks: TASKS, lanes: LANES })
    await state.emptyAudit(database.sql)
    const job = { task: 'plain', input: 1, audit: author, ...(owner !== null && { by: owner }) }
    const [any] = await database.sql<{ id: string }>(
      `select id::text from sluice.insert_jobs_v1($1, 'soon') id`,
      [JSON.stringify([job])],
    )
    const one = await insertOne('plain', 1, owner, database.sql, author)
    const { entries } = await app.access.readAudit({})
    const [last, first] = entries.map(({ id: __, at: ___, ...entry }) => entry)
    expect(last).toEqual({ ...first, target: `job ${one}` })
    expect(first!.target).toBe(`job ${any!.id}`)
  })

  test('leaves a line in the audit for a role that may only submit', async () => {
    const app = await apps.open({ tasks: TASKS, lanes: LANES })
    await state.emptyAudit(database.sql)
    await withProducer(database, async ({ role, sql }) => {
      const id = await insertOne('plain', 1, 'ann', sql, { actor: 'eve' })
      const { entries } = await app.access.readAudit({})
      expect(entries.map(({ actor, target, after }) => ({ actor, target, after }))).toEqual([
        { actor: role, target: `job ${id}`, after: { task: 'plain', by: 'ann' } },
      ])
      await database.sql(`revoke insert on sluice.jobs from ${role}`)
      await expect(insertOne('plain', 1, 'ann', sql)).rejects.toMatchObject({ code: '42501' })
    })
  })
})

test('what a submission says beside task and owner is stored', async () => {
  const app = await apps.open({ tasks: TASKS, lanes: LANES })
  const given = { priority: 3, lane: 'aged', deadline: '1h', tags: ['a'] } as const
  const { id } = await app.submit('plain', 1, given)
  expect(await app.getJob(id)).toMatchObject({ priority: 3, lane: 'aged', tags: ['a'] })
  const later = await app.submit('plain', 1, { runAt: '1h' })
  expect((await stored(later.id)) as { queue: unknown }).toMatchObject({ queue: { state: 'scheduled' } })
})

test('a single submission with an author leaves a line', async () => {
  const app = await apps.open({ tasks: TASKS, lanes: LANES })
  await state.emptyAudit(database.sql)
  const { submitter } = app.services
  const submission = await app.services.toSubmission('plain', 1, {}, 'ann')
  const { id } = await submitter.submit({ ...submission, author: { actor: 'ann', requestId: 'r-3' } })
  const { entries } = await app.access.readAudit({ actor: 'ann' })
  expect(entries.map(({ target, requestId }) => ({ target, requestId }))).toEqual([
    { target: `job ${id}`, requestId: 'r-3' },
  ])
})
