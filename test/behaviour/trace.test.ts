import { expect, test } from 'vitest'
import { fail, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { ended, nodesOf } from '../support/workflows.ts'

const database = useDatabase()
const apps = useApps(database)

const load = task({
  name: 'load',
  retry: { attempts: 1 },
  run: ({ file, format }: { file: string; format?: string }) => {
    if (format === 'broken' || file === 'bad') throw fail(`cannot read ${file}`)
    return { file, rows: 3 }
  },
})
const FAN = {
  steps: {
    list: { task: 'load', with: { file: 'list' } },
    each: {
      task: 'load',
      needs: ['list'],
      with_items: '${{ input.files }}',
      concurrency: 2,
      with: { file: '${{ item }}', format: '${{ input.format }}' },
    },
    merge: { task: 'load', needs: ['each'], with: { file: 'merge' } },
    later: { task: 'load', needs: ['merge'], on: 'always', with: { file: 'later' } },
  },
}
const INNER = {
  steps: { read: { task: 'load', with: { file: '${{ input.file }}', format: '${{ input.format }}' } } },
}
const OUTER = {
  steps: {
    harmless: { task: 'load', with: { file: 'bad' } },
    mended: { task: 'load', needs: ['harmless'], on: 'failure', with: { file: 'mended' } },
    block: {
      needs: ['mended'],
      steps: { inner: { workflow: 'inner', with: { file: 'data', format: '${{ input.options.format }}' } } },
    },
    after: { task: 'load', needs: ['block'], with: { file: 'after' } },
  },
}
const NO_OUTPUT = {
  steps: { one: { task: 'load', with: { file: 'x' } } },
  output: '${{ steps.one.result.missing.deeper }}',
}
const MADE = {
  steps: {
    list: { task: 'load', with: { file: 'list' } },
    aside: { task: 'load', with: { file: 'aside' } },
    each: {
      task: 'load',
      needs: ['list', 'aside'],
      with_items: "${{ ['a', steps.list.result.rows > 2 ? 'bad' : 'b'] }}",
      with: { file: '${{ item }}' },
    },
  },
}
const WORKFLOWS = [
  { name: 'made', definition: MADE },
  { name: 'fan', definition: FAN },
  { name: 'inner', definition: INNER },
  { name: 'outer', definition: OUTER },
  { name: 'no-output', definition: NO_OUTPUT },
]

async function open() {
  const app = await apps.open({ tasks: [load], workflows: WORKFLOWS })
  await app.work({ capacity: 10 })
  return app
}

test('from the root of a fan-out: the failed item, compared with the nearest good one, and what each level decided', async () => {
  const app = await open()
  const job = await app.submit('fan', { files: ['a', 'b', 'bad', 'd'], format: 'csv' })
  expect(await ended(app, job.id)).toBe('failed')
  const found = await app.trace(job.id)
  const [item, fanOut, root] = found.levels
  expect(found.levels).toHaveLength(3)
  expect(found.root).toBe(job.id)
  expect(item).toMatchObject({
    id: found.failure,
    kind: null,
    index: 2,
    status: 'failed',
    error: 'cannot read bad',
  })
  expect(item!.input).toEqual({ file: 'bad', format: 'csv' })
  expect(item!.comparison).toMatchObject({
    ...{ how: 'sibling', index: 1, more: false },
    differences: [{ path: 'file', here: 'bad', there: 'b' }],
  })
  expect(fanOut).toMatchObject({
    kind: 'fanout',
    counts: { total: 4, completed: 3, failed: 1 },
    failedAt: [2],
  })
  expect(root!.input).toEqual({ files: ['a', 'b', 'bad', 'd'], format: 'csv' })
  expect(root!.steps!.map(({ step, status, why }) => [step, status, why])).toEqual([
    ['list', 'completed', null],
    ['each', 'failed', '1 of 4 children failed; all must complete'],
    ['merge', 'skipped', 'each failed'],
    ['later', 'completed', null],
  ])
  expect(found.suspect).toBe(item!.id)
})

test('a step names the steps its input was made from, but not those it only needs', async () => {
  const app = await open()
  const job = await app.submit('made', null)
  expect(await ended(app, job.id)).toBe('failed')
  const [item, fanOut, root] = (await app.trace(job.id)).levels
  const [list] = root!.steps!
  expect(fanOut!.sources).toEqual([list])
  expect(list).toMatchObject({ step: 'list', id: expect.any(String), status: 'completed' })
  expect([item!.sources, root!.sources]).toEqual([undefined, undefined])
})

test('through groups and workflows to the failure that nothing made up for, compared with the last good run', async () => {
  const app = await open()
  const good = await app.submit('outer', { options: { format: 'csv', level: 1 } })
  await good.result()
  const job = await app.submit('outer', { options: { format: 'broken', level: 1 } })
  expect(await ended(app, job.id)).toBe('failed')
  const found = await app.trace(job.id)
  expect(found.levels.map(({ step, task, kind }) => [step ?? task, kind])).toEqual([
    ['read', null],
    ['inner', 'workflow'],
    ['block', 'group'],
    ['outer', 'workflow'],
  ])
  expect(found.levels.map(({ comparison }) => comparison?.differences.map(({ path }) => path))).toEqual([
    ['format'],
    ['format'],
    ['input.options.format'],
    ['options.format'],
  ])
  expect(found.levels[3]!.comparison).toMatchObject({ with: good.id, how: 'last_good_run' })
  expect(found.levels[3]!.steps).toMatchObject([
    { step: 'harmless', status: 'failed', handled: true },
    { step: 'mended', status: 'completed', handled: false },
    { step: 'block', status: 'failed', handled: false },
    { step: 'after', status: 'skipped', why: 'block failed' },
  ])
  expect(found.suspect).toBe(found.failure)
})

test('the first ancestor whose input differs need not be the failure', async () => {
  let isBroken = false
  const flaky = task({
    ...{ name: 'load', retry: { attempts: 1 } },
    run: ({ file }: { file: string }) => {
      if (isBroken && file === 'data') throw fail('the disk is full')
      if (file === 'bad') throw fail('bad')
      return { file }
    },
  })
  const app = await apps.open({ tasks: [flaky], workflows: WORKFLOWS })
  await app.work({ capacity: 10 })
  await (await app.submit('outer', { options: { format: 'x' }, who: 'me' })).result()
  isBroken = true
  const job = await app.submit('outer', { options: { format: 'x' }, who: 'you' })
  expect(await ended(app, job.id)).toBe('failed')
  const found = await app.trace(job.id)
  expect(found.levels.map(({ comparison }) => comparison!.differences.length)).toEqual([0, 0, 1, 1])
  expect(found.suspect).toBe(found.levels[2]!.id)

  const same = await app.submit('outer', { options: { format: 'x' }, who: 'me' })
  expect(await ended(app, same.id)).toBe('failed')
  expect((await app.trace(same.id)).suspect).toBeNull()
})

test('a node that is named is where the trace begins, and its own fault where all below it is well', async () => {
  const app = await open()
  const job = await app.submit('outer', { options: { format: 'broken' } })
  expect(await ended(app, job.id)).toBe('failed')
  const tree = await app.tree(job.id)
  const harmless = nodesOf(tree, ({ step }) => step === 'harmless')[0]!
  expect((await app.trace(harmless.id)).levels.map(({ id }) => id)).toEqual([harmless.id, job.id])

  const output = await app.submit('no-output', null)
  expect(await ended(app, output.id)).toBe('failed')
  const found = await app.trace(output.id)
  expect(found).toMatchObject({
    failure: output.id,
    root: output.id,
    levels: [{ steps: [{ status: 'completed' }] }],
  })
})

test('a workflow without a failure has nothing to trace; a single job can still be traced', async () => {
  const app = await open()
  const job = await app.submit('fan', { files: ['a'], format: 'csv' })
  await job.result()
  await expect(app.trace(job.id)).rejects.toMatchObject({ code: 'ILLEGAL_TRANSITION' })
  const [leaf] = nodesOf(await app.tree(job.id), ({ kind }) => kind === null)
  expect(await app.trace(leaf!.id)).toMatchObject({
    failure: leaf!.id,
    levels: [{ id: leaf!.id, status: 'completed' }, { id: job.id }],
  })
  await expect(app.trace('31337')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
})
