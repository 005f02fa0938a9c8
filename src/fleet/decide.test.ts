import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { OpenRequest, PoolSituation } from '../model/pool-situation.ts'
import { decide, waitOf } from './decide.ts'

const POOL: PoolSituation = {
  min: 0,
  max: 3,
  capacity: 1,
  cooldownMs: 10_000,
  taking: 0,
  leaving: 0,
  returnable: 0,
  overflow: [],
  expected: 0,
  request: null,
  failures: 0,
  sinceLastMs: null,
}
const REQUEST: OpenRequest = {
  wanted: 3,
  started: null,
  arrived: 0,
  abandoned: false,
  overdue: false,
  gone: 0,
}
const waiting = (jobs: number, perWorker: number | null = null) => [
  { lane: 'default', jobs, waitedMs: 2500, perWorker, reason: 'no worker runs task resize' },
]

describe('decide', () => {
  test('starts nothing while there is capacity', () => {
    expect(decide(POOL).action).toBe('nothing')
  })

  test('asks for as many as wait, up to the maximum, and says why', () => {
    expect(decide({ ...POOL, overflow: waiting(2) })).toMatchObject({ action: 'start', count: 2 })
    expect(decide({ ...POOL, overflow: waiting(15) })).toEqual({
      action: 'start',
      count: 3,
      reason: '15 jobs waited up to 2.5 s: no worker runs task resize',
    })
    expect(decide({ ...POOL, capacity: 4, max: 10, overflow: waiting(15) })).toMatchObject({ count: 4 })
  })

  test('counts what one worker may run of a lane, where that is less than its capacity', () => {
    const pool = { ...POOL, capacity: 8, max: 10, overflow: waiting(15, 2) }
    expect(decide(pool)).toMatchObject({ action: 'start', count: 8 })
    expect(decide({ ...pool, capacity: 0, overflow: waiting(15) })).toMatchObject({ count: 1 })
  })

  test('leaves out what workers on their way for other pools will take', () => {
    expect(decide({ ...POOL, overflow: waiting(3), expected: 2 })).toMatchObject({ count: 1 })
    expect(decide({ ...POOL, overflow: waiting(3), expected: 5 }).action).toBe('nothing')
  })

  test('brings a leaving worker back before it starts another, also during the cool-down', () => {
    const pool = { ...POOL, taking: 1, leaving: 2, returnable: 1, overflow: waiting(5), sinceLastMs: 0 }
    expect(decide(pool)).toMatchObject({ action: 'bring-back', count: 1 })
  })

  test('does not start more while those that leave fill the pool', () => {
    const pool = { ...POOL, taking: 1, leaving: 2, overflow: waiting(5) }
    expect(decide(pool)).toMatchObject({
      action: 'nothing',
      reason: expect.stringContaining('2 of them leaving'),
    })
  })

  test('keeps the minimum without any job', () => {
    expect(decide({ ...POOL, min: 2, taking: 1 })).toMatchObject({ action: 'start', count: 1 })
  })

  test('waits for the cool-down, and longer after each failure, ten minutes at most', () => {
    const pool = { ...POOL, overflow: waiting(1), sinceLastMs: 4000 }
    expect(decide(pool)).toMatchObject({ action: 'nothing', reason: expect.stringContaining('cool-down') })
    expect(decide({ ...pool, sinceLastMs: 10_000 }).action).toBe('start')
    const failing = (failures: number) => waitOf({ ...pool, failures, sinceLastMs: 0 })
    expect([1, 2, 3, 99].map(failing)).toEqual([10_000, 20_000, 40_000, 600_000])
    expect(waitOf({ cooldownMs: 0, failures: 1, sinceLastMs: 0 })).toBe(1000)
  })

  test('one request at a time: while one is open nothing is started', () => {
    const pool = { ...POOL, overflow: waiting(15), request: { ...REQUEST, started: 3, arrived: 1 } }
    expect(decide(pool)).toEqual({ action: 'nothing', reason: 'a request is open: 1 of 3 came' })
  })

  test.each<[string, Partial<OpenRequest>, object]>([
    ['all came', { started: 3, arrived: 3 }, { action: 'close', outcome: 'arrived' }],
    ['all that could be started came', { started: 2, arrived: 2 }, { action: 'close', outcome: 'arrived' }],
    ['all came before the answer', { arrived: 3 }, { action: 'close', outcome: 'arrived' }],
    ['none was started', { started: 0 }, { action: 'close', outcome: 'failed' }],
    ['some came in time', { started: 3, arrived: 1, overdue: true }, { action: 'close', outcome: 'arrived' }],
    ['none arrived in time', { started: 3, overdue: true }, { action: 'close', outcome: 'expired' }],
    ['no response in time', { overdue: true, abandoned: true }, { action: 'close', outcome: 'failed' }],
    ['all ended before they arrived', { started: 2, gone: 2 }, { action: 'close', outcome: 'expired' }],
    ['the caller is gone', { abandoned: true }, { action: 'call-again' }],
    ['the caller still calls', {}, { action: 'nothing' }],
  ])('an open request: %s', (_, request, expected) => {
    expect(decide({ ...POOL, request: { ...REQUEST, ...request } })).toMatchObject(expected)
  })

  test('never goes beyond the maximum, and never acts without need, whatever the situation', () => {
    const whole = fc.integer({ min: 0, max: 50 })
    const situation = fc
      .record({ min: whole, more: whole, capacity: whole, taking: whole, leaving: whole, jobs: whole })
      .chain((all) =>
        fc.record({ all: fc.constant(all), returnable: fc.integer({ min: 0, max: all.leaving }) }),
      )
    fc.assert(
      fc.property(situation, ({ all, returnable }) => {
        const { min, more, capacity, taking, leaving, jobs } = all
        const overflow = jobs === 0 ? [] : waiting(jobs)
        const pool = { ...POOL, min, max: min + more, capacity, taking, leaving, returnable, overflow }
        const decision = decide(pool)
        if (decision.action === 'start') {
          expect(decision.count).toBeGreaterThan(0)
          expect(taking + leaving + decision.count).toBeLessThanOrEqual(pool.max)
          expect(returnable === 0 || taking >= pool.max).toBe(true)
        }
        if (decision.action === 'bring-back') expect(taking + decision.count).toBeLessThanOrEqual(pool.max)
        if (jobs === 0 && taking >= min) expect(decision.action).toBe('nothing')
      }),
    )
  })
})
