import fc from 'fast-check'
import { expect, test } from 'vitest'
import { DEFAULT_RETRY, type RetryPolicy, retryDelay } from './retry.ts'

const policy: fc.Arbitrary<RetryPolicy> = fc.record({
  attempts: fc.integer({ min: 1, max: 32_767 }),
  backoff: fc.constantFrom('exponential', 'fixed'),
  delayMs: fc.integer({ min: 0, max: 10 ** 12 }),
  maxDelayMs: fc.integer({ min: 0, max: 10 ** 12 }),
})
const failures = fc.integer({ min: 1, max: 32_767 })
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

test('the default is three attempts, one second, then two, with an hour at most', () => {
  expect(DEFAULT_RETRY).toEqual({ attempts: 3, backoff: 'exponential', delayMs: 1000, maxDelayMs: 3_600_000 })
  expect([1, 2, 3].map((n) => retryDelay(DEFAULT_RETRY, n, 0))).toEqual([1000, 2000, undefined])
})

test('there is a next try exactly while attempts are left', () => {
  fc.assert(
    fc.property(policy, failures, random, (each, failed, dice) => {
      expect(retryDelay(each, failed, dice) === undefined).toBe(failed >= each.attempts)
    }),
  )
})

test('jitter takes up to half of the wait away, never more, and never adds', () => {
  fc.assert(
    fc.property(policy, failures, random, (each, failed, dice) => {
      fc.pre(failed < each.attempts)
      const factor = each.backoff === 'fixed' ? 1 : 2 ** (failed - 1)
      const full = each.delayMs === 0 ? 0 : Math.min(each.delayMs * factor, each.maxDelayMs)
      const delay = retryDelay(each, failed, dice)!
      expect(Number.isSafeInteger(delay)).toBe(true)
      expect(delay).toBeGreaterThanOrEqual(Math.floor(full / 2))
      expect(delay).toBeLessThanOrEqual(Math.ceil(full))
    }),
  )
})

test('exponential waits double, fixed ones stay', () => {
  const base = { attempts: 100, delayMs: 100, maxDelayMs: 5000 }
  const delays = (backoff: RetryPolicy['backoff']) =>
    [1, 2, 3, 4, 5, 6, 7, 8].map((n) => retryDelay({ ...base, backoff }, n, 0))
  expect(delays('exponential')).toEqual([100, 200, 400, 800, 1600, 3200, 5000, 5000])
  expect(delays('fixed')).toEqual(Array.from({ length: 8 }, () => 100))
})
