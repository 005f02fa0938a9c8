import { expect, test } from 'vitest'
import { nextSize, scaleOf } from './window-scale.ts'

test('a scale has room to pull, is a round number, and has no more places than children', () => {
  expect([0, 3, 8, 60, 400].map((used) => scaleOf(used, 100_000))).toEqual([10, 10, 20, 120, 800])
  expect([10, 11, 12, 13].map((used) => scaleOf(used, 100_000))).toEqual([20, 25, 25, 30])
  expect(scaleOf(3, 4)).toBe(4)
  expect(scaleOf(50, 4)).toBe(50)
  expect(scaleOf(0, 0)).toBe(1)
})

test('keys of a slider move the size by one, by a tenth of the scale, or to an end', () => {
  expect(nextSize('ArrowRight', 4, 20)).toBe(5)
  expect(nextSize('ArrowDown', 0, 20)).toBe(0)
  expect(nextSize('PageUp', 4, 20)).toBe(6)
  expect([nextSize('Home', 4, 20), nextSize('End', 4, 20), nextSize('a', 4, 20)]).toEqual([0, 20, undefined])
})
