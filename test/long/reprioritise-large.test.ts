import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { forgetJobs } from '../support/state/jobs.ts'
import { activeByPriority, isPriorityPending, largestWrite } from '../support/state/priorities.ts'
import { longestOpenMs } from '../support/state/transactions.ts'
import { countStates } from '../support/trees.ts'
import { until } from '../support/until.ts'

// CI has 2,500 children: workflow-priority.test.ts.
const CHILDREN = Number(process.env.SLUICE_CHILDREN ?? 100_000)

const database = useDatabase()
const apps = useApps(database)

test(`a workflow with ${CHILDREN} children that have not started is reprioritised while other jobs start as before`, async () => {
  const held = task({ name: 'held', lane: 'shut', run: (_: unknown) => null })
  const quick = task({ name: 'quick', lane: 'open', run: (_: unknown) => null })
  const fan = { task: 'held', with_items: '${{ input }}', with: '${{ item }}' }
  const app = await apps.open({
    tasks: [held, quick],
    workflows: [{ name: 'wide', definition: { steps: { fan } } }],
    lanes: { shut: { slots: 0 }, open: { slots: 4 } },
  })
  await app.work({ capacity: 4 })
  const root = await app.submit(
    'wide',
    Array.from({ length: CHILDREN }, (_, n) => n),
  )
  await until(
    async () => (await countStates(database.sql, root.id, 'composite is null')).ready === CHILDREN,
    'all children',
    900_000,
  )

  /** From the submission of a small job to its result, again and again until `over`. */
  async function latencies(over: () => Promise<boolean>): Promise<number[]> {
    const took: number[] = []
    while (!(await over())) {
      const began = performance.now()
      await (await app.submit(quick, null)).result()
      took.push(performance.now() - began)
      await delay(20)
    }
    return took.sort((a, b) => a - b)
  }

  let left = 50
  const before = await latencies(async () => left-- === 0)
  let longestMs = 0
  let watching = true
  const watch = (async () => {
    while (watching) {
      longestMs = Math.max(longestMs, await longestOpenMs(database.sql))
      await delay(5)
    }
  })()
  const began = performance.now()
  await app.reprioritise(root.id, 7)
  const answeredMs = performance.now() - began
  const during = await latencies(async () => !(await isPriorityPending(database.sql)))
  const spreadMs = performance.now() - began
  watching = false
  await watch
  const of = (sorted: readonly number[], share: number) =>
    Math.round(sorted[Math.floor((sorted.length - 1) * share)]!)
  const largest = await largestWrite(database.sql, root.id)
  console.log({
    children: CHILDREN,
    answeredMs: Math.round(answeredMs),
    spreadMs: Math.round(spreadMs),
    longestTransactionMs: Math.round(longestMs),
    largestTransaction: largest,
    jobsBefore: { n: before.length, median: of(before, 0.5), longest: of(before, 1) },
    jobsMeanwhile: { n: during.length, median: of(during, 0.5), longest: of(during, 1) },
  })
  expect(await activeByPriority(database.sql, root.id)).toEqual({ 7: CHILDREN + 2 })
  expect(largest).toBeLessThanOrEqual(1001)
  expect(of(during, 0.5), 'the median of other jobs').toBeLessThan(10 * of(before, 0.5) + 500)
  await app.stopWorking()
  await forgetJobs(database.sql)
})
