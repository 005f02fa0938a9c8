import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cronProblem, shortestInterval, Ticks } from './cron.ts'
import { offsetAt, toInstant } from './time-zone.ts'

const at = (text: string) => Date.parse(text)

function ticks(cron: string, timezone: string, after: string, until: string): string[] {
  return new Ticks(cron, timezone)
    .between(at(after), at(until), 1000)
    .map((tick) => new Date(tick).toISOString())
}

describe('what a cron expression may be', () => {
  test.each([
    '0 3 * * *',
    '*/15 9-17 * * MON-FRI',
    '30 0 3 * * *',
    '0 0 L * *',
    '0 9 * * MON#1',
    '0 0 29 2 *',
    '0 0 29 2 +MON',
    '0 0 * 2 MON#5',
    '0 0 30 2 MON#5',
    '@daily',
    '@hourly',
    '  5  4 * * * ',
  ])('%j is taken', (cron) => {
    expect(cronProblem(cron)).toBeUndefined()
  })

  test.each([
    ['', 'has 1 fields; write five'],
    ['* * * *', 'has 4 fields; write five'],
    ['0 0 0 1 1 * 2031', 'has 7 fields; write five'],
    ['2031-05-01T08:00:00', 'has 1 fields; write five'],
    ['61 * * * *', 'cannot be read: Invalid value for minute: 61'],
    ['* 24 * * *', 'cannot be read: Invalid value for hour: 24'],
    ['*/0 * * * *', 'cannot be read'],
    ['@reboot', 'cannot be read'],
    ['every day at noon, please', 'cannot be read'],
    ['0 0 30 2 *', 'never occurs'],
    ['0 0 31 2,4,6,9,11 *', 'never occurs'],
    ['0 0 1 * +MON#5', 'never occurs'],
    ['0 0 LW * +SUN', 'never occurs'],
    [`${'1,'.repeat(150)}1 * * * *`, 'must not be longer than 200 characters'],
    [7, 'must be a text'],
    [null, 'must be a text'],
  ])('%j is refused with the reason', (cron, reason) => {
    expect(cronProblem(cron)).toContain(reason)
  })

  // Croner looks through 400 years for these: 100 to 700 ms each.
  test.each([
    '0 0 30 2 *',
    '0 0 1-7 * +MON#3,TUE#3,WED#3',
    `* * * ${Array.from({ length: 31 }, (_, day) => `${day + 1}W`).join(',')} * +SAT#1,SUN#1`,
  ])('%j is found out to be a time that never comes in milliseconds', (cron) => {
    // Time of the processor: on a busy machine the clock says more about others.
    const spentMs: number[] = []
    for (let n = 0; n < 10; n++) {
      const started = process.cpuUsage()
      expect(cronProblem(cron)).toContain('never occurs')
      const { user, system } = process.cpuUsage(started)
      spentMs.push((user + system) / 1000)
    }
    expect(Math.min(...spentMs)).toBeLessThan(80)
  })

  test('no text at all makes the check throw', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9*/,LW#?@ -]{0,30}$/)), (text) => {
        const problem = cronProblem(text)
        if (problem === undefined) expect(new Ticks(text, 'Europe/Berlin').next(0)).toBeGreaterThan(0)
      }),
      { numRuns: 300 },
    )
  })
})

describe('the shortest interval of a cron expression', () => {
  test.each([
    ['* * * * * *', 1],
    ['*/2 * * * * *', 2],
    ['0,30 0 3 * * *', 30],
    ['30 * * * * *', 60],
    ['* * * * *', 60],
    ['59,0 * * * * *', 1],
    ['0 0,59 * * * *', 60],
    ['0 */15 9-17 * * MON-FRI', 900],
    ['0 3 * * *', 86_400],
    ['0 0,23 * * *', 3600],
    ['@hourly', 3600],
    ['@weekly', 86_400],
    // Croner takes them for 5 and 6.
    ['5*,6* * * * * *', 1],
  ])('of %s is %d s', (cron, seconds) => {
    expect(shortestInterval(cron)).toBe(seconds * 1000)
  })

  test('is never longer than what is between two ticks', () => {
    const field = (max: number) =>
      fc.oneof(
        fc.constant('*'),
        fc.integer({ min: 1, max }).map((step) => `*/${step}`),
        fc
          .array(fc.integer({ min: 0, max: max - 1 }), { minLength: 1, maxLength: 4 })
          .map((list) => list.join(',')),
        fc
          .tuple(
            fc.integer({ min: 0, max: max - 1 }),
            fc.integer({ min: 0, max: max - 1 }),
            fc.integer({ min: 1, max: 5 }),
          )
          .map(([a, b, step]) => `${Math.min(a, b)}-${Math.max(a, b)}/${step}`),
      )
    fc.assert(
      fc.property(field(60), field(60), field(24), (second, minute, hour) => {
        const cron = `${second} ${minute} ${hour} * * *`
        const found = new Ticks(cron, 'UTC').between(0, Number.POSITIVE_INFINITY, 150)
        const gaps = found.slice(1).map((tick, n) => tick - found[n]!)
        expect(shortestInterval(cron)).toBeLessThanOrEqual(Math.min(...gaps))
      }),
      { numRuns: 100 },
    )
  })
})

/**
 * Clocks in Berlin: forward on 2027-03-28 from 02:00 to 03:00 (01:00 UTC), back on 2027-10-31 from 03:00 to 02:00
 * (01:00 UTC). In New York: forward on 2027-03-14 from 02:00 to 03:00 (07:00 UTC), back on 2027-11-07 from 02:00 to
 * 01:00 (06:00 UTC).
 */
describe('when clocks are put forward', () => {
  test.each([
    // A time of day that does not exist comes at the end of the jump, and the day after as usual.
    ['30 2 * * *', 'Europe/Berlin', ['2027-03-27T01:30', '2027-03-28T01:00', '2027-03-29T00:30']],
    ['0 2 * * *', 'Europe/Berlin', ['2027-03-27T01:00', '2027-03-28T01:00', '2027-03-29T00:00']],
    // Those around it do not move.
    ['59 1 * * *', 'Europe/Berlin', ['2027-03-27T00:59', '2027-03-28T00:59', '2027-03-28T23:59']],
    ['0 3 * * *', 'Europe/Berlin', ['2027-03-27T02:00', '2027-03-28T01:00', '2027-03-29T01:00']],
    // Several that do not exist come once, together with one that is there anyway.
    [
      '15,45 2 * * *',
      'Europe/Berlin',
      ['2027-03-27T01:15', '2027-03-27T01:45', '2027-03-28T01:00', '2027-03-29T00:15', '2027-03-29T00:45'],
    ],
    [
      '0 2,3 * * *',
      'Europe/Berlin',
      ['2027-03-27T01:00', '2027-03-27T02:00', '2027-03-28T01:00', '2027-03-29T00:00', '2027-03-29T01:00'],
    ],
    ['30 2 * * *', 'America/New_York', ['2027-03-13T07:30', '2027-03-14T07:00', '2027-03-15T06:30']],
    // Only on a day of the week: the night itself counts.
    ['30 2 * * SUN', 'America/New_York', ['2027-03-14T07:00']],
  ])('%s in %s', (cron, timezone, expected) => {
    const [from, to] =
      timezone === 'Europe/Berlin'
        ? ['2027-03-26T23:30:00Z', '2027-03-29T01:59:00Z']
        : ['2027-03-13T05:30:00Z', '2027-03-15T07:59:00Z']
    expect(ticks(cron, timezone, from, to)).toEqual(expected.map((each) => `${each}:00.000Z`))
  })

  test.each(['Europe/Berlin', 'America/New_York'])(
    'a schedule of every hour goes on by the hour in %s',
    (timezone) => {
      const from = timezone === 'Europe/Berlin' ? '2027-03-27T22:30:00Z' : '2027-03-14T04:30:00Z'
      const found = new Ticks('0 * * * *', timezone).between(at(from), at(from) + 6 * 3_600_000, 100)
      expect(found).toHaveLength(6)
      found.forEach((tick, index) => {
        expect(tick).toBe(at(from) + 1_800_000 + index * 3_600_000)
      })
    },
  )
})

describe('when clocks are put back', () => {
  test.each([
    // A time of day that comes twice is fired at the first.
    ['30 2 * * *', 'Europe/Berlin', ['2027-10-30T00:30', '2027-10-31T00:30', '2027-11-01T01:30']],
    ['0 2 * * *', 'Europe/Berlin', ['2027-10-30T00:00', '2027-10-31T00:00', '2027-11-01T01:00']],
    ['0 3 * * *', 'Europe/Berlin', ['2027-10-30T01:00', '2027-10-31T02:00', '2027-11-01T02:00']],
    [
      '0 1-3 * * *',
      'Europe/Berlin',
      [
        '2027-10-29T23:00',
        '2027-10-30T00:00',
        '2027-10-30T01:00',
        '2027-10-30T23:00',
        '2027-10-31T00:00',
        '2027-10-31T02:00',
        '2027-11-01T00:00',
        '2027-11-01T01:00',
        '2027-11-01T02:00',
      ],
    ],
    [
      '15,45 2 * * *',
      'Europe/Berlin',
      [
        '2027-10-30T00:15',
        '2027-10-30T00:45',
        '2027-10-31T00:15',
        '2027-10-31T00:45',
        '2027-11-01T01:15',
        '2027-11-01T01:45',
      ],
    ],
    ['0 2,14 31 10 *', 'Europe/Berlin', ['2027-10-31T00:00', '2027-10-31T13:00']],
    ['30 1 * * *', 'America/New_York', ['2027-11-06T05:30', '2027-11-07T05:30', '2027-11-08T06:30']],
    ['*/20 1 7 11 *', 'America/New_York', ['2027-11-07T05:00', '2027-11-07T05:20', '2027-11-07T05:40']],
  ])('%s in %s', (cron, timezone, expected) => {
    const [from, to] =
      timezone === 'Europe/Berlin'
        ? ['2027-10-29T22:30:00Z', '2027-11-01T02:59:00Z']
        : ['2027-11-06T04:30:00Z', '2027-11-08T06:59:00Z']
    expect(ticks(cron, timezone, from, to)).toEqual(expected.map((each) => `${each}:00.000Z`))
  })

  test.each(['Europe/Berlin', 'America/New_York'])(
    'a schedule of every half hour goes on by elapsed time in %s',
    (timezone) => {
      const from = timezone === 'Europe/Berlin' ? '2027-10-30T22:45:00Z' : '2027-11-07T03:45:00Z'
      const found = new Ticks('*/30 * * * *', timezone).between(at(from), at(from) + 5 * 3_600_000, 100)
      expect(found).toHaveLength(10)
      found.forEach((tick, index) => {
        expect(tick).toBe(at(from) + 900_000 + index * 1_800_000)
      })
    },
  )

  test('returns no tick of the first occurrence of an hour during its second occurrence', () => {
    expect(ticks('45 2 * * *', 'Europe/Berlin', '2027-10-31T01:10:00Z', '2027-11-01T02:00:00Z')).toEqual([
      '2027-11-01T01:45:00.000Z',
    ])
  })
})

describe('ticks', () => {
  test('come in order, each once, and last() is the end of between()', () => {
    const zones = [
      'UTC',
      'Europe/Berlin',
      'America/New_York',
      'Australia/Lord_Howe',
      'Africa/Cairo',
      'America/St_Johns',
    ]
    const crons = [
      '*/10 * * * *',
      '30 2 * * *',
      '0 0 * * *',
      '15,45 1-3 * * *',
      '0 */6 * * *',
      '0 12 * * MON',
    ]
    const days = fc.integer({
      min: at('2026-01-01T00:00:00Z') / 1000,
      max: at('2028-12-31T00:00:00Z') / 1000,
    })
    fc.assert(
      fc.property(fc.constantFrom(...zones), fc.constantFrom(...crons), days, (zone, cron, second) => {
        const all = new Ticks(cron, zone)
        const [from, to] = [second * 1000, second * 1000 + 3 * 86_400_000]
        const found = all.between(from, to, 10_000)
        expect(found).toEqual([...new Set(found)].sort((a, b) => a - b))
        expect(all.last(5, from, to)).toEqual(found.slice(-5))
        expect(all.last(0, from, to)).toEqual([])
      }),
      { numRuns: 60 },
    )
  })

  test('of a long time are found without going through it', () => {
    const every = new Ticks('* * * * * *', 'Europe/Berlin')
    expect(every.last(3, 0, at('2031-01-01T00:00:00Z')).map((tick) => new Date(tick).toISOString())).toEqual([
      '2030-12-31T23:59:58.000Z',
      '2030-12-31T23:59:59.000Z',
      '2031-01-01T00:00:00.000Z',
    ])
  })
})

describe('a time zone', () => {
  test('shows at an instant what that instant was looked up for, or the end of a jump', () => {
    const zones = [
      'Europe/Berlin',
      'America/New_York',
      'Australia/Lord_Howe',
      'Asia/Kathmandu',
      'Africa/Cairo',
    ]
    const seconds = fc.integer({
      min: at('2020-01-01T00:00:00Z') / 1000,
      max: at('2030-01-01T00:00:00Z') / 1000,
    })
    fc.assert(
      fc.property(fc.constantFrom(...zones), seconds, (zone, second) => {
        const instant = toInstant(second * 1000, zone)
        const shown = instant + offsetAt(instant, zone)
        const before = instant - 1000 + offsetAt(instant - 1000, zone)
        expect(shown === second * 1000 || (before < second * 1000 && shown > second * 1000)).toBe(true)
      }),
      { numRuns: 500 },
    )
  })

  test('may leave out a day, as Samoa did', () => {
    expect(ticks('0 12 * * *', 'Pacific/Apia', '2011-12-29T00:00:00Z', '2011-12-31T23:00:00Z')).toEqual([
      '2011-12-29T22:00:00.000Z',
      '2011-12-30T10:00:00.000Z',
      '2011-12-30T22:00:00.000Z',
      '2011-12-31T22:00:00.000Z',
    ])
  })
})

test('gives the same ticks whether one object is asked again and again, in any order, or a new one each time', () => {
  const start = Date.UTC(2031, 2, 29, 22)
  for (const [cron, timezone] of [
    ['*/20 * * * *', 'UTC'],
    ['30 2 * * *', 'Europe/Berlin'],
    ['0 0 29 2 *', 'Asia/Tokyo'],
  ] as const) {
    const kept = new Ticks(cron, timezone)
    for (let n = 0; n < 60; n++) {
      const after = start + ((n * 37) % 60) * 20 * 60_000 - (n % 3)
      expect(kept.next(after)).toBe(new Ticks(cron, timezone).next(after))
    }
  }
})
