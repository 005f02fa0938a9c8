import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hasCode } from '../errors.ts'
import { formatDuration, parseDuration } from './duration.ts'

test('what is formatted is read back, to the millisecond', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 10 ** 13 }), (ms) => {
      expect(parseDuration(formatDuration(ms), 'x')).toBe(ms)
    }),
    { numRuns: 1000 },
  )
})

test('parts add up, in any order, with or without spaces', () => {
  const unit = fc.constantFrom(['ms', 1], ['s', 1000], ['m', 60_000], ['h', 3_600_000], [
    'd',
    86_400_000,
  ] as const)
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.integer({ min: 0, max: 9999 }), unit, fc.constantFrom('', ' ')), {
        minLength: 1,
        maxLength: 6,
      }),
      (parts) => {
        const text = parts.map(([n, [name], space]) => `${n}${space}${name}${space}`).join('')
        const sum = parts.reduce((total, [n, [, size]]) => total + n * Number(size), 0)
        expect(parseDuration(text, 'x')).toBe(sum)
      },
    ),
  )
})

describe('formatDuration', () => {
  test.each([
    [0, '0ms'],
    [999, '999ms'],
    [1000, '1s'],
    [90_000, '1m30s'],
    [86_400_001, '1d1ms'],
    [604_800_000, '7d'],
  ])('%i ms is %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text)
  })
})

describe('parseDuration', () => {
  test.each([
    ['1h30m', 5_400_000],
    [' 250ms ', 250],
    ['1.5s', 1500],
    [42, 42],
    [0, 0],
  ])('reads %j', (given, ms) => {
    expect(parseDuration(given, 'x')).toBe(ms)
  })

  test.each([
    '',
    ' ',
    '5',
    's',
    '5 minutes',
    '-5s',
    '1e3s',
    '5s!',
    'NaN',
    '∞',
    '１s',
    -1,
    Number.NaN,
    Number.POSITIVE_INFINITY,
  ])('refuses %j and names where it stands', (given) => {
    try {
      parseDuration(given, 'lanes.x.poll')
      expect.unreachable()
    } catch (error) {
      expect(hasCode(error, 'INVALID_ARGUMENT')).toBe(true)
      expect(String(error)).toContain('lanes.x.poll: ')
    }
  })

  test('never accepts anything that is not a duration', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        fc.pre(!/^\s*(\d+(\.\d+)?\s*(ms|s|m|h|d)\s*)+$/.test(text))
        expect(() => parseDuration(text, 'x')).toThrow('is not a duration')
      }),
    )
  })
})
