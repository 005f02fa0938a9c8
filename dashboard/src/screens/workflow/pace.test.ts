import { expect, test } from 'vitest'
import { paceOf } from './pace.ts'
import type { GraphNode } from './use-workflow.ts'

const job = (total: number, completed: number) =>
  ({ status: 'running', counts: { total, completed, failed: 0, inFlight: 5 } }) as unknown as GraphNode

test('reads a small fan-out again when its numbers change, a large one after a pause, an ended one once', () => {
  expect(paceOf(job(50, 1), false).stamp).not.toEqual(paceOf(job(50, 2), false).stamp)
  const large = paceOf(job(100_000, 1), false)
  expect(large).toEqual(paceOf(job(100_000, 2), false))
  expect(large.refetchInterval).toBeGreaterThan(1000)
  expect(paceOf(job(100_000, 100_000), true)).toMatchObject({
    refetchInterval: false,
    stamp: [100_000, 0, 5, 'running'],
  })
})
