import { expect, test } from 'vitest'
import { type EndedAttempt, firstDue } from './assignment.ts'

const retry = (delayMs: number): EndedAttempt => ({
  id: '1',
  attempt: 1,
  ending: { kind: 'retry', error: 'x', delayMs },
})

test('the first job that comes back later is due after the shortest delay', () => {
  expect(firstDue([retry(300), retry(20), retry(100)])).toBe(20)
})

test('nothing is due later where jobs come back at once', () => {
  expect(firstDue([retry(0), retry(0.4), { id: '2', attempt: 1, ending: { kind: 'returned' } }])).toBeNull()
  expect(firstDue([retry(0), retry(50)])).toBe(50)
})
