import { expect, test } from 'vitest'
import type { Queryable } from '../../db/database.ts'
import { BudgetPlanner } from './budget-planner.ts'

/** Where nothing can be started it asks nothing. */
const db = { run: () => Promise.reject(new Error('asked')) } as unknown as Queryable

test('reports free room to waiting jobs shortly after an earlier report, not never', async () => {
  const planner = new BudgetPlanner(db)
  const drawn = new Map(['1', '2'].map((id) => [id, { model: null, devices: [] }]))
  const cycle = async (...ids: string[]) => {
    const ended = ids.map((id) => ({ id, attempt: 1, ending: { kind: 'completed' as const, result: '1' } }))
    const request = { workerId: '1', classes: [], models: new Set<string>(), free: 0, news: undefined, drawn }
    return (await planner.prepare({ ...request, ended })).budget
  }
  expect(await cycle('1')).toBe('{"hint":true}')
  expect(planner.lookAgainMs).toBe(Number.POSITIVE_INFINITY)
  expect(await cycle('2')).toBeNull()
  expect(planner.lookAgainMs).toBeLessThanOrEqual(20)
  while (planner.lookAgainMs > 0) await new Promise((resolve) => setImmediate(resolve))
  expect(await cycle()).toBe('{"hint":true}')
  expect(await cycle()).toBeNull()
  expect(planner.lookAgainMs).toBe(Number.POSITIVE_INFINITY)
})
