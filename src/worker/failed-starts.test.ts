import { describe, expect, test } from 'vitest'
import { FailedStarts } from './failed-starts.ts'

const none = () => false

describe('a task that cannot be started', () => {
  test('is tried again soon at first, and withdrawn for a minute by the third failure', () => {
    const starts = new FailedStarts()
    expect(starts.limits(none, 0)).toBeUndefined()

    expect(starts.failed('x', 'missing', 0)).toEqual({ retryMs: 500, withdrawn: false })
    expect(starts.limits(none, 499)).toEqual(new Map([['x', 0]]))
    expect(starts.limits(none, 500)).toEqual(new Map([['x', 1]]))
    expect(starts.failed('x', 'missing', 500)).toEqual({ retryMs: 2000, withdrawn: false })
    expect(starts.failed('x', 'missing', 2500)).toEqual({ retryMs: 60_000, withdrawn: true })
    expect(starts.withdrawn(2500)).toEqual([{ task: 'x', why: 'missing', retryMs: 60_000 }])
    expect(starts.nextMs(2500)).toBe(60_000)
    expect(starts.limits(none, 62_499)).toEqual(new Map([['x', 0]]))
  })

  test('is tried by one job at a time, and withdrawn for another minute when that fails', () => {
    const starts = new FailedStarts()
    for (const at of [0, 0, 0]) starts.failed('x', 'missing', at)
    expect(starts.limits(none, 60_000)).toEqual(new Map([['x', 1]]))
    expect(starts.limits((task) => task === 'x', 60_000)).toEqual(new Map([['x', 0]]))
    expect(starts.failed('x', 'still missing', 60_000)).toEqual({ retryMs: 60_000, withdrawn: true })
    expect(starts.withdrawn(60_000)).toEqual([{ task: 'x', why: 'still missing', retryMs: 60_000 }])
  })

  test('is withdrawn once when many jobs of it fail together', () => {
    const starts = new FailedStarts()
    const told = [1, 2, 3, 4, 5].map((at) => starts.failed('x', 'missing', at).withdrawn)
    expect(told).toEqual([false, false, true, false, false])
    expect(starts.nextMs(5)).toBe(59_998)
  })

  test('is like any other once it has started', () => {
    const starts = new FailedStarts()
    starts.failed('x', 'missing', 0)
    expect(starts.started('x')).toBe(false)
    for (const at of [0, 0, 0]) starts.failed('x', 'missing', at)
    expect(starts.started('x')).toBe(true)
    expect(starts.limits(none, 0)).toBeUndefined()
    expect(starts.nextMs(0)).toBe(Number.POSITIVE_INFINITY)
  })
})
