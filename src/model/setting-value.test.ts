import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { formatDuration } from './duration.ts'
import { isName, MAX_STORED_MS } from './limits.ts'
import {
  choice,
  count,
  describe as describeValue,
  duration,
  flag,
  formatPath,
  invalidConfig,
  orNone,
  orWord,
} from './setting-value.ts'

describe('a duration', () => {
  const reader = duration({ min: 0, max: MAX_STORED_MS })

  test('reads back what its text says, for every whole number of milliseconds', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: MAX_STORED_MS }), (ms) => {
        expect(reader.read(formatDuration(ms))).toBe(ms)
        expect(reader.read(ms)).toBe(ms)
      }),
    )
  })

  test('is whole milliseconds, so that timers and columns agree', () => {
    expect(reader.read('1.5s')).toBe(1500)
    expect(reader.read('0.3ms')).toBe(0)
    expect(duration({ min: 1, max: 10 }).read('0.3ms')).toBeUndefined()
  })

  test('needs its unit when it comes as text, since 5 could mean seconds', () => {
    expect(reader.readText('5')).toBeUndefined()
    expect(reader.readText('5s')).toBe(5000)
  })

  test.each([true, null, undefined, {}, [], 'soon', '-1s', Number.NaN, -1, Number.POSITIVE_INFINITY])(
    'is not %s',
    (value) => {
      expect(reader.read(value)).toBeUndefined()
    },
  )

  test('says its bounds', () => {
    const poll = duration({ min: 10, max: 3_600_000 })
    expect(poll.bound).toBe('>= 10ms, <= 1h')
    expect(poll.expected).toContain('from 10ms up to 1h')
    expect(poll.read(9)).toBeUndefined()
    expect(poll.read('1h1ms')).toBeUndefined()
  })
})

describe('a count', () => {
  test('accepts exactly the whole numbers within its bounds', () => {
    const reader = count({ min: -3, max: 7 })
    fc.assert(
      fc.property(fc.oneof(fc.integer(), fc.integer({ min: -5, max: 9 }), fc.double()), (value) => {
        const right = Number.isInteger(value) && value >= -3 && value <= 7
        expect(reader.read(value)).toBe(right ? value : undefined)
      }),
    )
  })

  test('reads digits from the environment only', () => {
    const reader = count({ min: 0 })
    expect(reader.read('2')).toBeUndefined()
    expect(reader.readText('2')).toBe(2)
    for (const text of ['-1', '2.0', '1e3', '0x10', '2 ', '99999999999']) {
      expect(reader.readText(text)).toBeUndefined()
    }
  })
})

test('none, null and cores have their own meaning and are written back as words', () => {
  const reader = orNone(orWord(count({ min: 0 }), 'cores', 0))
  expect([reader.read('none'), reader.read(null), reader.read('cores'), reader.read(3)]).toEqual([
    null,
    null,
    0,
    3,
  ])
  expect([reader.format(null), reader.format(0), reader.format(3)]).toEqual(['none', 'cores', '3'])
  expect(reader.readText('none')).toBeNull()
  expect(reader.readText('cores')).toBe(0)
  expect(reader.readText('all')).toBeUndefined()
  expect(reader.expected).toBe('a whole number of at least 0, or cores, or none')
})

test('flags and choices accept their words and nothing like them', () => {
  expect(flag.read('true')).toBeUndefined()
  expect(flag.readText('true')).toBe(true)
  expect(flag.readText('yes')).toBeUndefined()
  expect(choice('retry', 'fail').read('retry')).toBe('retry')
  expect(choice('retry', 'fail').read('Retry')).toBeUndefined()
})

test('a name is what the database accepts as one, and never __proto__', () => {
  for (const name of ['resize', '_x', 'cover_letter', 'a.b-c', 'a'.repeat(100)])
    expect(isName(name)).toBe(true)
  for (const name of ['', '9a', 'a b', 'ä', 'a'.repeat(101), '__proto__', 'a\n'])
    expect(isName(name)).toBe(false)
})

test('a path reads like code', () => {
  expect(formatPath(['lanes', 'interactive', 'tasks', 0])).toBe('lanes.interactive.tasks[0]')
  expect(formatPath(['tasks', 'a.b', 'env'])).toBe('tasks["a.b"].env')
})

test('describes any value in a few words, however large it is', () => {
  expect(describeValue('x'.repeat(100_000)).length).toBeLessThan(80)
  expect([null, [], {}, () => 1, Number.NaN].map(describeValue)).toEqual([
    'nothing',
    'a list',
    'a map',
    'a function',
    'NaN',
  ])
})

describe('invalidConfig', () => {
  test('tells one problem in one line, with its place', () => {
    const place = { file: 'sluice.yaml', line: 4, column: 12 }
    const error = invalidConfig([{ path: 'lanes.a.slots', place, message: 'found -1' }])
    expect(error.message).toBe('sluice.yaml:4:12: lanes.a.slots: found -1')
    expect(error.details).toEqual({
      problems: [{ path: 'lanes.a.slots', file: 'sluice.yaml', line: 4, column: 12, message: 'found -1' }],
    })
  })

  test('stays readable when everything is wrong', () => {
    const error = invalidConfig(
      Array.from({ length: 5000 }, (_, index) => ({ path: `p${index}`, message: 'bad' })),
    )
    expect(error.message).toMatch(/^5000 problems:\n {2}p0: bad\n/)
    expect(error.message).toMatch(/and 4900 more$/)
  })
})
