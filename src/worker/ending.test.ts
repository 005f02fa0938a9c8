import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { SluiceError } from '../errors.ts'
import type { Ending } from '../model/job.ts'
import { BrokenWorker, Stop, type StopReason } from './attempt.ts'
import { decideEnding, errorText, fail, retryAt, type Settled, snooze } from './ending.ts'
import { outOfMemory } from './models/out-of-memory.ts'
import { readable } from './thrown.ts'

const NOW = Date.parse('2030-01-01T00:00:00Z')
const retry = { attempts: 3, backoff: 'fixed', delayMs: 1000, maxDelayMs: 10_000 } as const

function decide(settled: Settled, options: { stop?: StopReason; failures?: number } = {}): Ending {
  const stop = options.stop === undefined ? undefined : new Stop(options.stop, 'the test said so')
  return decideEnding(settled, stop, { task: 't', retry }, options.failures ?? 0, NOW, 0)
}

const threw = (error: unknown): Settled => ({ ok: false, error })
const gave = (value: unknown): Settled => ({ ok: true, value })

describe('an attempt on devices', () => {
  const onDevices = (error: unknown, memory: { model: boolean; loading: boolean }) =>
    decideEnding(threw(error), undefined, { task: 't', retry, memory }, 0, NOW, 0)
  const torch = new Error(
    'CUDA out of memory. Tried to allocate 1.00 GiB. this process has 2.00 GiB memory in use',
  )

  test('that runs out of their memory is no failure, and says what it needs where that is known', () => {
    const needed = 3 * 1024 ** 3
    const ending = { kind: 'out_of_memory', error: torch.message, loading: false } as const
    expect(onDevices(torch, { model: false, loading: false })).toEqual({ ...ending, needed })
    // How much of it is the model's is not known.
    expect(onDevices(torch, { model: true, loading: false })).toEqual(ending)
    expect(onDevices(torch, { model: true, loading: true })).toEqual({ ...ending, loading: true })
    expect(onDevices(outOfMemory({ needed: 5 }), { model: true, loading: true })).toEqual({
      kind: 'out_of_memory',
      error: 'out of memory',
      needed: 5,
      loading: true,
    })
    expect(
      onDevices(new Error('the program failed', { cause: torch }), { model: true, loading: false }),
    ).toMatchObject({
      kind: 'out_of_memory',
    })
  })

  test('fails like any other by anything else, and without devices by that too', () => {
    expect(onDevices(new Error('no'), { model: true, loading: false })).toMatchObject({
      kind: 'retry',
      error: 'no',
    })
    expect(decide(threw(torch))).toMatchObject({ kind: 'retry', error: torch.message })
    expect(decide(threw(outOfMemory()))).toMatchObject({ kind: 'retry', error: 'out of memory' })
  })

  test('ends as requested when it was asked to stop', () => {
    const policy = { task: 't', retry, memory: { model: false, loading: false } }
    const stop = new Stop('cancelled', 'on request')
    expect(decideEnding(threw(torch), stop, policy, 0, NOW, 0)).toMatchObject({ kind: 'cancelled' })
  })
})

describe('an attempt that nobody stopped', () => {
  test('completes with the JSON of its result', () => {
    expect(decide(gave({ a: [1, undefined] }))).toEqual({ kind: 'completed', result: '{"a":[1,null]}' })
    expect(decide(gave(undefined))).toEqual({ kind: 'completed', result: 'null' })
  })

  test('fails for good when its result cannot be stored: the next try would give the same', () => {
    expect(decide(gave('a\0b'))).toEqual({
      kind: 'failed',
      error: 'the result of task t cannot be stored: it contains a NUL character',
    })
  })

  test('is tried again after an error while attempts are left', () => {
    expect(decide(threw(new Error('no')))).toEqual({ kind: 'retry', error: 'no', delayMs: 1000 })
    expect(decide(threw(new Error('no')), { failures: 1 })).toMatchObject({ kind: 'retry' })
    expect(decide(threw(new Error('no')), { failures: 2 })).toEqual({ kind: 'failed', error: 'no' })
  })

  test('ends as its verdict says', () => {
    expect(decide(threw(fail('for good')))).toEqual({ kind: 'failed', error: 'for good' })
    expect(decide(threw(snooze(5000)), { failures: 99 })).toEqual({ kind: 'snoozed', delayMs: 5000 })
    expect(decide(threw(snooze(new Date(NOW + 7000))))).toEqual({ kind: 'snoozed', delayMs: 7000 })
    expect(decide(threw(snooze(new Date(NOW - 7000))))).toEqual({ kind: 'snoozed', delayMs: 0 })
    expect(decide(threw(snooze('1m30s')))).toEqual({ kind: 'snoozed', delayMs: 90_000 })
    expect(decide(threw(retryAt('30s', 'later')))).toEqual({ kind: 'retry', error: 'later', delayMs: 30_000 })
    expect(() => snooze('soon')).toThrow(
      /^snooze: "soon" is not a duration; write milliseconds or text such as/,
    )
    expect(() => retryAt(new Date('x'))).toThrow(/^retryAt: .* is not a time; use a Date, a duration/)
    expect(decide(threw(retryAt(2000, 'later')))).toEqual({ kind: 'retry', error: 'later', delayMs: 2000 })
    expect(decide(threw(retryAt(2000, 'later')), { failures: 2 })).toEqual({ kind: 'failed', error: 'later' })
  })

  test('knows a verdict that comes from another copy of this package', () => {
    const foreign = Object.assign(new Error('from afar'), { name: 'Verdict', kind: 'fail' })
    expect(decide(threw(foreign))).toEqual({ kind: 'failed', error: 'from afar' })
  })

  test('goes back with the reason when this worker could not even start it', () => {
    expect(decide(threw(new BrokenWorker('no such program')), { failures: 2 })).toEqual({
      kind: 'returned',
      error: 'no such program',
    })
  })

  test('fails for good when its input does not fit or something it left cannot be stored', () => {
    for (const code of ['INVALID_INPUT', 'NOT_STORABLE'] as const) {
      expect(decide(threw(new SluiceError(code, 'bad')))).toEqual({ kind: 'failed', error: 'bad' })
    }
  })
})

describe('an attempt that was stopped', () => {
  test('by a cancel is cancelled, whatever it does', () => {
    for (const settled of [gave(1), threw(new Error('x')), threw(snooze(1)), threw(fail('x'))]) {
      expect(decide(settled, { stop: 'cancelled' })).toEqual({
        kind: 'cancelled',
        error: 'cancelled: the test said so',
      })
    }
  })

  test('by its timeout has failed once, whatever it does', () => {
    const error = 'timeout: the test said so'
    expect(decide(gave(1), { stop: 'timeout' })).toEqual({ kind: 'retry', error, delayMs: 1000 })
    expect(decide(threw(fail('x')), { stop: 'timeout', failures: 2 })).toEqual({ kind: 'failed', error })
  })

  test.each(['shutdown', 'lease-lost'] as const)(
    'by %s keeps a result that it still has, else goes back',
    (stop) => {
      expect(decide(gave(1), { stop })).toEqual({ kind: 'completed', result: '1' })
      expect(decide(threw(new Error('stopped')), { stop, failures: 2 })).toEqual({ kind: 'returned' })
    },
  )
})

test('whatever a task throws or gives, there is an ending that can be stored', () => {
  const stops = fc.constantFrom<StopReason | undefined>(
    undefined,
    'cancelled',
    'timeout',
    'shutdown',
    'lease-lost',
  )
  fc.assert(
    fc.property(
      fc.anything({ withBigInt: true, withDate: true, withNullPrototype: true }),
      fc.boolean(),
      stops,
      fc.nat(5),
      (value, ok, stop, failures) => {
        const ending = decide(ok ? gave(value) : threw(value), { ...(stop && { stop }), failures })
        if (ending.kind === 'completed') expect(() => JSON.parse(ending.result)).not.toThrow()
        if ('error' in ending) expect(ending.error.length).toBeLessThan(17_000)
        if ('delayMs' in ending) expect(ending.delayMs).toBeGreaterThanOrEqual(0)
      },
    ),
    { numRuns: 1000 },
  )
})

test('delays stay within a year and a day', () => {
  fc.assert(
    fc.property(fc.oneof(fc.double({ noNaN: true }), fc.date({ noInvalidDate: true })), (time) => {
      const ending = decide(threw(snooze(time)))
      expect(ending).toMatchObject({ kind: 'snoozed' })
      const { delayMs } = ending as { delayMs: number }
      expect(delayMs).toBeGreaterThanOrEqual(0)
      expect(delayMs).toBeLessThanOrEqual(366 * 86_400_000)
    }),
  )
})

describe('the text of an error', () => {
  test('has its causes behind it, five deep at most', () => {
    let error: unknown = 'root'
    for (let n = 0; n < 10; n++) error = new Error(`level ${n}`, { cause: error })
    expect(errorText(error)).toBe(
      'level 9 (caused by level 8) (caused by level 7) (caused by level 6) (caused by level 5)',
    )
  })

  test('is there for everything, also for what cannot be looked at', () => {
    const refusing = new Proxy(new Error('x'), {
      get() {
        throw new Error('never')
      },
      getPrototypeOf() {
        throw new Error('never')
      },
    })
    expect(errorText(refusing)).toBe('the task threw something that cannot be read')
    expect(errorText(readable(refusing))).toBe('the task threw something that cannot be read')
    expect(errorText(undefined)).toBe('undefined')
    expect(errorText(Symbol('s'))).toBe('Symbol(s)')
    expect(errorText({ a: 1 })).toBe('{"a":1}')
    expect(errorText(() => {})).toBe('[function ]')
    const full: Record<string, unknown> = { code: 42, retry: () => {} }
    full.self = full
    expect(errorText(full)).toBe('{"code":42,"retry":"[function retry]","self":"[circular]"}')
    expect(errorText(readable(full))).toBe(errorText(full))
  })

  test('says of an error without a message which class it is and where it was thrown', () => {
    class Declined extends Error {}
    const text = /^Declined without a message, thrown at .*ending\.test\.ts:\d+:\d+\)?$/
    expect(errorText(new Declined(''))).toMatch(text)
    expect(errorText(readable(new Declined('')))).toMatch(text)
    expect(errorText(new Error('outer', { cause: new TypeError() }))).toMatch(
      /^outer \(caused by TypeError without a message, thrown at /,
    )
  })

  test('has no key of Sluice in it', () => {
    expect(errorText(new Error(`401 with slk_${'a'.repeat(40)}`))).toBe('401 with slk_***')
  })
})
