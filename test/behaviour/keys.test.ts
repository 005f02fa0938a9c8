import pg from 'pg'
import { expect, test } from 'vitest'
import { fail, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

const waiting = (name: string) => task({ name, run: (_: unknown) => null })

test('100 parallel submissions of one key make one job and get 100 equal answers', async () => {
  const render = waiting('parallel')
  const [one, two] = await Promise.all([apps.open({ tasks: [render] }), apps.open({ tasks: [render] })])

  const handles = await Promise.all(
    Array.from({ length: 100 }, (_, i) =>
      (i % 2 === 0 ? one : two).submit(render, { page: 1 }, { key: 'page 1' }),
    ),
  )

  expect(new Set(handles.map((handle) => handle.id)).size).toBe(1)
  expect(handles.filter((handle) => !handle.attached)).toHaveLength(1)
  expect(await one.listJobs({ task: 'parallel' })).toHaveLength(1)
})

test('a key held with another input is refused, and the error names the job that holds it', async () => {
  const render = waiting('conflict')
  const app = await apps.open({ tasks: [render] })
  const holder = await app.submit(render, { page: 1 }, { key: 'a' })

  await expect(app.submit(render, { page: 2 }, { key: 'a' })).rejects.toMatchObject({
    code: 'KEY_CONFLICT',
    details: { jobId: holder.id },
    message: expect.stringContaining(`held by job ${holder.id}`),
  })
  expect(await app.listJobs({ task: 'conflict' })).toHaveLength(1)
})

test.each([
  ['nothing', undefined],
  ['null', null],
  ['an empty object', {}],
  ['an empty list', []],
  ['zero', 0],
])('%s as input attaches to the same input', async (name, input) => {
  const render = waiting(`attach-${name.replaceAll(' ', '-')}`)
  const app = await apps.open({ tasks: [render] })
  const first = await app.submit(render, input, { key: 'a' })
  const second = await app.submit(render, input, { key: 'a' })

  expect(second).toMatchObject({ id: first.id, attached: true })
  await expect(app.submit(render, { other: true }, { key: 'a' })).rejects.toMatchObject({
    code: 'KEY_CONFLICT',
  })
})

test('inputs are equal when their values are, however they were written', async () => {
  const render = waiting('equal')
  const app = await apps.open({ tasks: [render] })
  const first = await app.submit(render, { a: 1, b: [1.0, 2e3] }, { key: 'a' })

  expect(await app.submit(render, { b: [1, 2000], a: 1 }, { key: 'a' })).toMatchObject({ id: first.id })
  await expect(app.submit(render, { b: [2000, 1], a: 1 }, { key: 'a' })).rejects.toMatchObject({
    code: 'KEY_CONFLICT',
  })
})

test('the same key is free in another task', async () => {
  const [one, two] = [waiting('task-one'), waiting('task-two')]
  const app = await apps.open({ tasks: [one, two] })

  const first = await app.submit(one, 1, { key: 'a' })
  const second = await app.submit(two, 2, { key: 'a' })

  expect(second.attached).toBe(false)
  expect(second.id).not.toBe(first.id)
})

test('a job that runs, backs off, is scheduled or awaits approval holds its key', async () => {
  const gate = new Gate()
  const runs = task({ name: 'runs', run: (_: unknown) => gate.pass() })
  const failing = task({
    name: 'failing',
    retry: { delay: '1h' },
    run: (_: unknown) => {
      throw new Error('no')
    },
  })
  const asks = task({ name: 'asks', approval: true, run: (_: unknown) => null })
  const app = await apps.open({ tasks: [runs, failing, asks] })
  await app.work({ capacity: 2 })

  const running = await app.submit(runs, 1, { key: 'a' })
  await gate.arrived()
  const later = await app.submit(runs, 1, { key: 'later', runAt: '1h' })
  const backsOff = await app.submit(failing, 1, { key: 'a' })
  await until(async () => (await app.getJob(backsOff.id)).failures === 1, 'the first failure')
  const unapproved = await app.submit(asks, 1, { key: 'a' })

  for (const [job, which, key] of [
    [running, runs, 'a'],
    [later, runs, 'later'],
    [backsOff, failing, 'a'],
    [unapproved, asks, 'a'],
  ] as const) {
    expect(await app.submit(which, 1, { key })).toMatchObject({ id: job.id, attached: true })
  }
  gate.open()
})

test('the key is free again once the job has completed, failed or been cancelled', async () => {
  const ends = task({
    name: 'ends',
    run: (how: string) => {
      if (how === 'fails') throw fail('as told')
      return how
    },
  })
  const app = await apps.open({ tasks: [ends] })
  const cancelled = await app.submit(ends, 'waits', { key: 'a' })
  await app.cancel(cancelled.id)
  const failed = await app.submit(ends, 'fails', { key: 'a' })
  expect(failed.id).not.toBe(cancelled.id)
  await app.work()
  await expect(failed.result()).rejects.toMatchObject({ code: 'JOB_FAILED' })

  const completed = await app.submit(ends, 'completes', { key: 'a' })
  await completed.result()
  const last = await app.submit(ends, 'completes', { key: 'a' })

  expect(last.attached).toBe(false)
  expect(last.id).not.toBe(completed.id)
  expect(await last.result()).toBe('completes')
})

test('one bulk submission with several keys attaches to what is there, and repeats attach to each other', async () => {
  const render = waiting('bulk')
  const app = await apps.open({ tasks: [render] })
  const before = await app.submit(render, 'same', { key: 'k' })

  const stored = await app.submitMany(render, ['same', 'same', 'same'], { key: 'k' })

  expect(stored.map((each) => [each.id, each.attached])).toEqual([
    [before.id, true],
    [before.id, true],
    [before.id, true],
  ])
  const fresh = await app.submitMany(render, ['new', 'new'], { key: 'n' })
  expect(fresh.map((each) => each.attached)).toEqual([false, true])
})

test('a bulk submission with a conflict stores nothing', async () => {
  const render = waiting('bulk-conflict')
  const app = await apps.open({ tasks: [render] })

  await expect(app.submitMany(render, [1, 2], { key: 'k' })).rejects.toMatchObject({ code: 'KEY_CONFLICT' })
  expect(await app.listJobs({ task: 'bulk-conflict' })).toEqual([])
})

test('a submission attaches inside a transaction, and waits for a stranger who has the key in an open one', async () => {
  const render = waiting('in-transaction')
  const app = await apps.open({ tasks: [render] })
  const [mine, theirs] = [new pg.Client(database.url), new pg.Client(database.url)]
  await Promise.all([mine.connect(), theirs.connect()])
  try {
    await theirs.query('begin')
    const first = await app.submit(render, 1, { key: 'a', transaction: theirs })
    await mine.query('begin')
    const blocked = app.submit(render, 1, { key: 'a', transaction: mine })
    await until(async () => (await lockWaits()) > 0, 'the second submission to wait for the first')
    await theirs.query('commit')

    expect(await blocked).toMatchObject({ id: first.id, attached: true })
    await mine.query('commit')
    expect(await app.listJobs({ task: 'in-transaction' })).toHaveLength(1)
  } finally {
    await Promise.all([mine.end(), theirs.end()])
  }
})

test('a submission that waited for a transaction which rolls back gets the key', async () => {
  const render = waiting('rolled-back')
  const app = await apps.open({ tasks: [render] })
  const theirs = new pg.Client(database.url)
  await theirs.connect()
  try {
    await theirs.query('begin')
    await app.submit(render, 1, { key: 'a', transaction: theirs })
    const blocked = app.submit(render, 2, { key: 'a' })
    await until(async () => (await lockWaits()) > 0, 'the second submission to wait for the first')
    await theirs.query('rollback')

    const mine = await blocked
    expect(mine.attached).toBe(false)
    expect(await app.getJob(mine.id)).toMatchObject({ key: 'a', input: 2 })
  } finally {
    await theirs.end()
  }
})

test('the database itself refuses a second active job with the key', async () => {
  const render = waiting('index')
  const app = await apps.open({ tasks: [render] })
  const { id } = await app.submit(render, 1, { key: 'a' })

  await expect(
    database.sql(
      `insert into sluice.jobs (task, class_id, key, input) select task, class_id, key, input from sluice.jobs where id = $1`,
      [id],
    ),
  ).rejects.toMatchObject({ code: '23505', constraint: 'job_keys_pkey' })
})

async function lockWaits(): Promise<number> {
  const rows = await database.sql<{ n: number }>(
    `select count(*)::integer as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rows[0]!.n
}

test('in bulk every job may have a key of its own, and other options over the common ones', async () => {
  const ship = task({ name: 'ship-many', run: (_: { order: string }) => null })
  const app = await apps.open({ tasks: [ship] })
  const inputs = ['a', 'b', 'c'].map((order) => ({ order }))
  const seen: number[] = []

  const jobs = await app.submitMany(ship, inputs, {
    priority: 3,
    tags: ['bulk'],
    each: ({ order }, index) => {
      seen.push(index)
      return { key: order, ...(order === 'b' && { priority: 9 }) }
    },
  })

  expect(seen).toEqual([0, 1, 2])
  const stored = await Promise.all(jobs.map(({ id }) => app.getJob(id)))
  expect(stored.map(({ key, priority, tags }) => ({ key, priority, tags }))).toEqual([
    { key: 'a', priority: 3, tags: ['bulk'] },
    { key: 'b', priority: 9, tags: ['bulk'] },
    { key: 'c', priority: 3, tags: ['bulk'] },
  ])
  // Once more, with one twice: all find the jobs that are there.
  const again = await app.submitMany(ship, [...inputs, inputs[0]!], { each: ({ order }) => ({ key: order }) })
  expect(again.map(({ id, attached }) => [id, attached])).toEqual(
    [...jobs, jobs[0]!].map(({ id }) => [id, true]),
  )
  const twins = await app.submitMany(ship, [{ order: 'd' }, { order: 'd' }], { each: () => ({ key: 'd' }) })
  expect(twins.map(({ attached }) => attached)).toEqual([false, true])
  expect(twins[1]!.id).toBe(twins[0]!.id)
})

test('what each gives is checked as any options are, and nothing is stored', async () => {
  const ship = task({ name: 'ship-none', run: (_: number) => null })
  const app = await apps.open({ tasks: [ship] })
  for (const [each, message] of [
    [() => ({ kye: 'x' }), 'each(inputs[0]): unknown option "kye"; did you mean key?'],
    [() => undefined, 'each(inputs[0]): nothing must be an object with some of key'],
    [(_: number, index: number) => ({ key: index === 0 ? 'k' : '' }), 'key: "" must be a text'],
    ['key', 'each: "key" must be a function (input, index) => options'],
  ] as const) {
    await expect(app.submitMany(ship, [1, 2], { each: each as never })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    })
  }
  expect(await app.listJobs({ task: 'ship-none' })).toEqual([])
})
