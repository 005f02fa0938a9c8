import { expect, test, vi } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { settled } from '../support/persistent-caller.ts'
import { plantResults } from '../support/state/jobs.ts'
import { countStates, findStep, readTree } from '../support/trees.ts'
import { until } from '../support/until.ts'

vi.setConfig({ testTimeout: 60_000 })

const database = useDatabase()
const apps = useApps(database)
const echo = task({ name: 'echo', run: (input: unknown) => input })

test('a workflow with more results than can be read at once fails, can be cancelled, and takes no other with it', async () => {
  const gate = new Gate()
  const last = task({
    name: 'last',
    run: async ({ n }: { n: number }) => (n === 0 ? gate.pass().then(() => n) : n),
  })
  const fan = { task: 'last', with_items: '${{ range(19) }}', with: { n: '${{ item }}' } }
  const app = await apps.open({
    tasks: [last, echo],
    lanes: { default: { perWorker: null } },
    workflows: [
      {
        name: 'wide',
        definition: {
          steps: { fan, after: { task: 'echo', needs: ['fan'], with: '${{ steps.fan.results }}' } },
        },
      },
      {
        name: 'beside',
        definition: { steps: { one: { task: 'echo' }, two: { task: 'echo', needs: ['one'] } } },
      },
    ],
  })
  await app.work({ capacity: 100 })
  const [failing, cancelled] = await app.submitMany('wide', [1, 2])
  await gate.arrived(2)
  for (const { id } of [failing!, cancelled!]) {
    const step = await until(() => findStep(database.sql, id, 'fan'), 'the fan-out')
    await until(
      async () => (await countStates(database.sql, id, `parent_id = ${step}`)).completed === 18,
      'the others to end',
    )
    // Together more than the server puts into one list.
    await plantResults(database.sql, step, 16_000_000)
  }
  gate.open()
  await app.cancel(cancelled!.id)
  const beside = await app.submitMany('beside', [1, 2, 3])
  for (const each of beside) expect((await settled(each)).error).toBeUndefined()
  expect((await settled(failing!)).error).toMatch(
    /^step after failed: steps\.fan\.results: it has 275 MiB as JSON, and what is read at once may have 64 MiB together/,
  )
  await settled(cancelled!)
  expect((await app.getJob(cancelled!.id)).status).toBe('cancelled')
})

test('items that take long to work out become children a few at a time, each once and in order', async () => {
  const costly = '${{ range(1000).map(a, range(500).size()).size() + item }}'
  const steps = {
    fan: { task: 'echo', with_items: '${{ range(40) }}', concurrency: 5, with: { n: costly } },
  }
  const app = await apps.open({
    tasks: [echo],
    workflows: [{ name: 'costly', definition: { steps, output: '${{ steps.fan.results }}' } }],
  })
  await app.work({ capacity: 10 })
  const job = await app.submit('costly', null)
  expect(await job.result()).toEqual(Array.from({ length: 40 }, (_, n) => ({ n: 1000 + n })))
  const children = (await readTree(database.sql, job.id)).filter(({ kind }) => kind === null)
  expect(children.map(({ place }) => place)).toEqual(Array.from({ length: 40 }, (_, n) => n))
  const made = await database.sql(
    'select distinct submitted_at from sluice.jobs where root_id = $1 and idx >= 0 and composite is null',
    [job.id],
  )
  expect(made.length, 'transactions that made children').toBeGreaterThan(1)
})

test('the timeout of a fan-out is for all of it', async () => {
  const endless = task({
    name: 'endless',
    run: (_: unknown, ctx) =>
      new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason))),
  })
  const quick = task({
    name: 'quick',
    run: ({ n }: { n: number }) => (n < 100 ? new Promise((resolve) => setImmediate(resolve)) : null),
  })
  const fan = (name: string, more: object) => ({
    fan: {
      task: name,
      with_items: '${{ range(10000) }}',
      concurrency: 1,
      with: { n: '${{ item }}' },
      ...more,
    },
  })
  const app = await apps.open({
    tasks: [endless, quick],
    workflows: [
      { name: 'slow', definition: { steps: fan('quick', { timeout: '300ms' }) } },
      { name: 'stuck', definition: { steps: fan('endless', { timeout: '300ms' }) } },
    ],
  })
  await app.work({ capacity: 5 })
  for (const name of ['slow', 'stuck']) {
    const job = await app.submit(name, null)
    await expect(job.result()).rejects.toMatchObject({ code: 'JOB_FAILED' })
    const step = (await findStep(database.sql, job.id, 'fan'))!
    expect(await app.getJob(step)).toMatchObject({
      status: 'failed',
      error: 'timeout: it did not end in time',
    })
    await until(
      async () =>
        (await readTree(database.sql, job.id)).every(
          ({ state }) => !['ready', 'running', 'waiting'].includes(state),
        ),
      'what is below it to be stopped',
    )
  }
})

test('a result too large to be stored fails its workflow with its size, not the process', async () => {
  const big = task({ name: 'big', run: (_: unknown) => 'x'.repeat(6_000_000) })
  const steps = { a: { task: 'big' }, b: { task: 'big' }, c: { task: 'big' } }
  const app = await apps.open({
    tasks: [big],
    workflows: [
      { name: 'large', definition: { steps } },
      { name: 'small', definition: { steps, output: '${{ steps.a.status }}' } },
    ],
  })
  await app.work({ capacity: 3 })
  expect(await (await app.submit('small', null)).result()).toBe('completed')
  await expect((await app.submit('large', null)).result()).rejects.toMatchObject({
    code: 'JOB_FAILED',
    error: expect.stringMatching(/^its result has 180000\d\d characters as JSON, more than 16777216/),
  })
})
