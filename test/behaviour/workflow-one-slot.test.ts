import { expect, test, vi } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { countStates } from '../support/trees.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

vi.setConfig({ testTimeout: 120_000 })

const database = useDatabase()
const commits = useCommitChecker(database)
const apps = useApps(database)

const LEVELS = Number(process.env.SLUICE_LEVELS ?? 1000)
const LEAVES = Number(process.env.SLUICE_LEAVES ?? 1000)
/** How many branches each of the ten levels has. The last level is the leaves. */
const BRANCHES = [1, 2, 1, 2, 1, 5, 1, 1, 1, LEAVES / 20]

const one = task({ name: 'one', lane: 'single', run: ({ n }: { n: number }) => n })
const workflows = [
  {
    name: 'nested',
    definition: {
      steps: {
        below: {
          workflow: 'nested',
          when: '${{ input.n > 1 }}',
          with: { n: '${{ input.n - 1 }}' },
        },
        leaf: { task: 'one', when: '${{ input.n == 1 }}', with: { n: '${{ input.n }}' } },
      },
      output: '${{ input.n == 1 ? steps.leaf.result : steps.below.result + 1 }}',
    },
  },
  {
    name: 'tree',
    definition: {
      steps: {
        leaves: {
          task: 'one',
          when: '${{ size(input.branches) == 1 }}',
          with_items: '${{ range(input.branches[0]) }}',
          with: { n: '${{ item }}' },
        },
        below: {
          workflow: 'tree',
          when: '${{ size(input.branches) > 1 }}',
          with_items: '${{ range(input.branches[0]) }}',
          with: { branches: '${{ input.rest[0] }}', rest: '${{ input.rest[1] }}' },
        },
      },
      output: '${{ size(input.branches) }}',
    },
  },
  {
    name: 'three',
    definition: {
      steps: {
        a: { task: 'one', with: { n: '${{ input.n }}' } },
        b: { task: 'one', needs: ['a'], with: { n: '${{ steps.a.result + 1 }}' } },
        c: { task: 'one', needs: ['b'], with: { n: '${{ steps.b.result + 1 }}' } },
      },
      output: '${{ steps.c.result }}',
    },
  },
]

async function oneSlot() {
  const app = await apps.open({ tasks: [one], workflows, lanes: { single: { slots: 1, poll: '50ms' } } })
  await app.work({ capacity: 1 })
  return app
}

/** What is below a level, as the workflow hands it down: its branches, and the rest. */
function levels(branches: readonly number[]): { branches: readonly number[]; rest: unknown } {
  const below = branches.slice(1)
  return { branches, rest: below.length === 0 ? null : [below, levels(below).rest] }
}

test(`with one slot in the whole system, ${LEVELS} nested workflows end`, async () => {
  const app = await oneSlot()
  const job = await app.submit('nested', { n: LEVELS })
  expect(await job.result()).toBe(LEVELS)
  expect(await countStates(database.sql, job.id)).toEqual({ completed: LEVELS, skipped: LEVELS })
})

test(`with one slot in the whole system, a tree of depth ${BRANCHES.length} with ${LEAVES} leaves ends`, async () => {
  const app = await oneSlot()
  const job = await app.submit('tree', levels(BRANCHES))
  await job.result()
  expect(await countStates(database.sql, job.id, 'composite is null')).toEqual({ completed: LEAVES })
  const checker = await commits.catchUp()
  expect(checker.peak.get('single')).toBe(1)
})

test('with one slot in the whole system, 20 workflows at once end', async () => {
  const app = await oneSlot()
  const jobs = await app.submitMany(
    'three',
    Array.from({ length: 20 }, (_, n) => ({ n })),
  )
  const results = await Promise.all(jobs.map((job) => job.result()))
  expect(results).toEqual(Array.from({ length: 20 }, (_, n) => n + 2))
})
