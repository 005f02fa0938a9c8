import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Merge } from './merge.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

test('ten thousand events within a second are delivered four times, none lost and in their order', () => {
  const deliveries: number[][] = []
  const merge = new Merge<number>((events) => deliveries.push([...events]))
  for (let at = 0; at < 10_000; at++) {
    merge.add(at)
    if (at % 10 === 9) vi.advanceTimersByTime(1)
  }
  vi.advanceTimersByTime(250)
  expect(deliveries.length).toBeLessThanOrEqual(5)
  expect(deliveries.flat()).toEqual(Array.from({ length: 10_000 }, (_, at) => at))
})

test('what waits is handed on at once when asked, and once; what was forgotten is not', () => {
  const deliveries: (readonly string[])[] = []
  const merge = new Merge<string>((events) => deliveries.push(events))
  merge.add('a')
  merge.flush()
  merge.add('b')
  merge.stop()
  vi.advanceTimersByTime(1000)
  expect(deliveries).toEqual([['a']])
})
