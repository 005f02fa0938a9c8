import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { loadOutcomes } from '../../src/store/load-outcomes.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { readTree } from '../support/trees.ts'
import { until } from '../support/until.ts'

const echo = task({ name: 'echo', run: (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, {
  tasks: [echo],
  childrenPerTree: 100,
  treeDepth: 8,
  workflows: [
    {
      name: 'fan',
      definition: {
        steps: {
          first: { task: 'echo', with_items: '${{ range(input.first) }}' },
          second: { task: 'echo', needs: ['first'], with_items: '${{ range(input.second) }}' },
          handled: { task: 'echo', needs: ['second'], on: 'failure', with: '${{ steps.second.error }}' },
        },
      },
    },
    {
      name: 'deep',
      definition: {
        steps: {
          below: {
            workflow: 'deep',
            when: '${{ input.levels > 1 }}',
            with: { levels: '${{ input.levels - 1 }}' },
          },
        },
      },
    },
    {
      name: 'twice',
      definition: { steps: { left: { workflow: 'twice' }, right: { workflow: 'twice' } } },
    },
    {
      name: 'sum',
      definition: {
        steps: { each: { task: 'echo', with_items: '${{ input }}' }, own: { task: 'echo', with: 1 } },
      },
    },
  ],
})

async function run(workflow: string, input: unknown) {
  const key = await server.keyOf('submitter')
  const submitted = await server.call('POST', '/jobs', { key, body: { workflow, input } })
  expect(submitted.status).toBe(202)
  const { id } = submitted.json<{ id: string }>()
  const job = await until(async () => {
    const view = (await server.call('GET', `/jobs/${id}`, { key })).json<{
      status: string
      error: string
      result: unknown
    }>()
    return ['completed', 'failed'].includes(view.status) && view
  }, 'the workflow to end')
  return { ...job, tree: await readTree(database.sql, id), id }
}

test('a fan-out that its tree has no room for fails before any child is made, and the rest of the workflow goes on', async () => {
  await server.app.work({ capacity: 4 })
  const fits = await run('fan', { first: 60, second: 40 })
  expect([fits.status, fits.tree.length]).toEqual(['completed', 1 + 2 + 100 + 1])
  const wide = await run('fan', { first: 60, second: 41 })
  expect(wide.status).toBe('completed')
  expect(wide.result).toMatchObject({
    first: expect.any(Array),
    handled:
      'tree: with the 41 jobs of this step its tree would have 101, and it may have 100: make fewer, in batches for example, or raise childrenPerTree',
  })
  expect(wide.tree.length).toBe(1 + 2 + 60 + 1)
  const huge = await run('fan', { first: 0, second: 1_000_000 })
  expect([huge.status, huge.tree.length]).toEqual(['completed', 1 + 2 + 1])
})

test('a workflow that calls itself ends at the deepest level, and one that calls itself twice at the most jobs', async () => {
  expect((await run('deep', { levels: 9 })).status).toBe('completed')
  const deep = await run('deep', { levels: 10 })
  expect(deep.status).toBe('failed')
  expect(deep.error).toContain(
    'it would be 9 levels below its root, and a tree may have 8: end the nesting earlier, or raise treeDepth',
  )
  const twice = await run('twice', null)
  expect(twice.status).toBe('failed')
  expect(twice.tree.length).toBeLessThanOrEqual(1 + 2 + 100)
})

test('results that are too large together come one workflow after the other, and of one the small ones only', async () => {
  const wanted: { parent: string; index: number }[] = []
  for (let n = 0; n < 3; n++) {
    const { id } = await run('sum', ['x'.repeat(100_000), 'y'.repeat(100_000)])
    wanted.push({ parent: id, index: 0 }, { parent: id, index: 1 })
  }
  const load = (bytes: number) => loadOutcomes(server.app.services.calls, wanted, bytes)
  const [first, second] = [...new Set(wanted.map(({ parent }) => parent))]
  expect((await load(10_000_000)).length).toBe(6)
  // The first and second workflow's, but not the third's. Each takes a few KiB on disk.
  expect(new Set((await load(450_000)).map(({ parent }) => parent))).toEqual(new Set([first, second]))
  const little = await load(5000)
  expect(
    little.map(({ index, result, tooLarge }) => ({ index, result, isTooLarge: tooLarge !== null })),
  ).toEqual(
    expect.arrayContaining([
      { index: 0, result: null, isTooLarge: true },
      { index: 1, result: 1, isTooLarge: false },
    ]),
  )
})
