import { expect, test } from 'vitest'
import { nextRound, type Rounds } from './rounds.ts'

const over: Rounds = { id: '7', round: 0, overAt: 1000 }

test('a stream that is over is opened again once its job is known to be under way again', () => {
  expect(nextRound(over, '7', true, 1001)).toEqual({ id: '7', round: 1, overAt: undefined })
})

test('it stays closed while the job has ended, and for an answer from before the end', () => {
  expect(nextRound(over, '7', false, 2000)).toBe(over)
  expect(nextRound(over, '7', true, 1000)).toBe(over)
})

test('one that is open goes on, and another job begins with its first round', () => {
  const open: Rounds = { id: '7', round: 2, overAt: undefined }
  expect(nextRound(open, '7', true, 5000)).toBe(open)
  expect(nextRound(open, '8', true, 5000)).toEqual({ id: '8', round: 0, overAt: undefined })
})
