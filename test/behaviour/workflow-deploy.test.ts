import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'

const database = useDatabase()
const apps = useApps(database)

test('a deploy that changes a workflow leaves runs under way as they are', async () => {
  const gate = new Gate()
  const ran: string[] = []
  const tasks = [
    task({ name: 'first', run: () => gate.pass() }),
    task({
      name: 'say',
      run: ({ what }: { what: string }) => {
        ran.push(what)
        return what
      },
    }),
  ]
  const version = (what: string) => [
    { name: 'inner', definition: { steps: { tell: { task: 'say', with: { what } } } } },
    {
      name: 'deployed',
      definition: {
        steps: {
          wait: { task: 'first' },
          after: { workflow: 'inner', needs: ['wait'] },
          ...(what === 'new' ? { more: { task: 'say', needs: ['after'], with: { what: 'more' } } } : {}),
        },
        output: '${{ steps.after.result.tell }}',
      },
    },
  ]
  const old = await apps.open({ tasks, workflows: version('old') })
  const job = await old.submit('deployed', null)
  await old.work({ capacity: 2 })
  await gate.arrived(1)
  await old.stopWorking()
  await old.close()

  const app = await apps.open({ tasks, workflows: version('new') })
  await app.work({ capacity: 2 })
  gate.open()
  expect(await app.job(job.id).result()).toBe('old')
  expect(ran).toEqual(['old'])
  expect(await (await app.submit('deployed', null)).result()).toBe('new')
  expect(ran).toEqual(['old', 'new', 'more'])
  // One graph for each content: another start with the same definitions adds none.
  const count = async () => (await database.sql('select 1 from sluice.graphs')).length
  const before = await count()
  await apps.open({ tasks, workflows: version('new') })
  expect(await count()).toBe(before)
})

test('a name that was deleted is what it is declared as next, a task or a workflow, however it is submitted', async () => {
  const step = task({ name: 'turncoat-step', run: () => 'the workflow' })
  const asTask = { tasks: [task({ name: 'turncoat', run: () => 'the task' })] }
  const asWorkflow = {
    tasks: [step],
    workflows: [
      {
        name: 'turncoat',
        definition: { steps: { one: { task: step.name } }, output: '${{ steps.one.result }}' },
      },
    ],
  }
  const deleting = await apps.open()
  let round = 0
  for (const [options, expected] of [
    [asWorkflow, 'the workflow'],
    [asTask, 'the task'],
    [asWorkflow, 'the workflow'],
  ] as const) {
    if (round > 0) {
      await expect(apps.open(options)).rejects.toMatchObject({ code: 'NAME_TAKEN' })
      await deleting.deleteTask('turncoat')
    }
    const app = await apps.open(options)
    await app.work({ capacity: 4 })
    const [row] = await database.sql<{ id: string }>(`select sluice.submit('turncoat') as id`)
    const jobs = [
      app.job(row!.id),
      await app.submit('turncoat', null),
      await app.submit('turncoat', null, { key: `one ${round}` }),
      ...(await app.submitMany('turncoat', [null, null], {
        each: (_, n) => ({ key: `many ${round} ${n}` }),
      })),
    ]
    expect(await Promise.all(jobs.map((job) => job.result()))).toEqual(jobs.map(() => expected))
    await app.close()
    round++
  }
})

test('programs that declare one name as a task and as a workflow at the same time leave one of them', async () => {
  const deleting = await apps.open()
  const tasks = ['both-1', 'both-2', 'both-3'].map((name) => task({ name, run: () => null }))
  const inner = task({ name: 'both-step', run: () => null })
  const workflows = tasks.map(({ name }) => ({
    name,
    definition: { steps: { one: { task: inner.name } } },
  }))
  for (let round = 0; round < 10; round++) {
    const started = await Promise.allSettled([
      apps.open({ tasks }),
      apps.open({ tasks: [inner], workflows: round % 2 === 0 ? workflows : workflows.toReversed() }),
    ])
    const refused = started.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
    expect(refused).toMatchObject([{ code: 'NAME_TAKEN' }])
    const kinds = await database.sql<{ name: string }>(
      `select name from sluice.tasks where name like 'both-_' union all select name from sluice.workflows where name like 'both-_' order by 1`,
    )
    expect(kinds.map(({ name }) => name)).toEqual(['both-1', 'both-2', 'both-3'])
    for (const { name } of kinds) await deleting.deleteTask(name)
  }
})

test('a workflow submitted in an open transaction does not slow others down, and starts with the commit', async () => {
  const quick = task({ name: 'quick', run: () => 'done' })
  const app = await apps.open({
    tasks: [quick],
    workflows: [
      {
        name: 'quickly',
        definition: { steps: { a: { task: 'quick' }, b: { task: 'quick', needs: ['a'] } } },
      },
    ],
  })
  await app.work({ capacity: 4 })
  const { default: pg } = await import('pg')
  const client = new pg.Client(database.url)
  await client.connect()
  try {
    await client.query('begin')
    const later = await app.submit('quickly', null, { transaction: client })
    const locks = await database.sql(
      `select 1 from pg_locks where locktype = 'advisory' and pid = (select pid from pg_stat_activity where query like '%submit%' and state = 'idle in transaction' limit 1)`,
    )
    expect(locks).toEqual([])
    await (await app.submit('quickly', null)).result()
    await client.query('commit')
    expect(await later.result()).toEqual({ a: 'done', b: 'done' })
  } finally {
    await client.end()
  }
})
