import { describe, expect, test } from 'vitest'
import { combineSchedule, planFirings, readScheduleField, scheduleProblem } from './schedule.ts'

const at = (text: string) => Date.parse(text)
const iso = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString())
const HOURLY = { cron: '0 * * * *', timezone: 'UTC', enabled: true, catchUp: 1 }

function plan(schedule: typeof HOURLY, nextAt: string, now: string) {
  const { fire, passed, next } = planFirings(schedule, at(nextAt), at(now))
  return {
    fire: fire.map(iso),
    passed: passed && { ...passed, since: iso(passed.since), last: iso(passed.last) },
    next: iso(next),
  }
}

describe('the ticks that are due', () => {
  test('are fired, and the next one is returned', () => {
    expect(plan(HOURLY, '2031-05-01T08:00:00Z', '2031-05-01T08:00:01Z')).toEqual({
      fire: ['2031-05-01T08:00:00.000Z'],
      passed: undefined,
      next: '2031-05-01T09:00:00.000Z',
    })
  })

  test('fires only the latest tick after an outage, and reports the older ones together', () => {
    expect(plan(HOURLY, '2031-05-01T08:00:00Z', '2031-05-01T12:30:00Z')).toEqual({
      fire: ['2031-05-01T12:00:00.000Z'],
      passed: {
        count: 4,
        since: '2031-05-01T08:00:00.000Z',
        last: '2031-05-01T11:00:00.000Z',
        why: 'missed',
      },
      next: '2031-05-01T13:00:00.000Z',
    })
  })

  test('as many as catchUp says, the latest, and no more than there were', () => {
    const three = { ...HOURLY, catchUp: 3 }
    expect(plan(three, '2031-05-01T08:00:00Z', '2031-05-01T12:30:00Z')).toMatchObject({
      fire: ['2031-05-01T10:00:00.000Z', '2031-05-01T11:00:00.000Z', '2031-05-01T12:00:00.000Z'],
      passed: { count: 2 },
    })
    expect(plan(three, '2031-05-01T11:00:00Z', '2031-05-01T12:30:00Z')).toMatchObject({
      fire: ['2031-05-01T11:00:00.000Z', '2031-05-01T12:00:00.000Z'],
      passed: undefined,
    })
  })

  test('with catchUp 0 what was missed stays missed, and what is on time is fired', () => {
    const none = { ...HOURLY, catchUp: 0 }
    expect(plan(none, '2031-05-01T08:00:00Z', '2031-05-01T12:30:00Z')).toMatchObject({
      fire: [],
      passed: { count: 5 },
    })
    expect(plan(none, '2031-05-01T08:00:00Z', '2031-05-01T12:00:30Z')).toMatchObject({
      fire: ['2031-05-01T12:00:00.000Z'],
      passed: { count: 4 },
    })
  })

  test('less than a minute late, all of them are fired, whatever catchUp says', () => {
    const seconds = { ...HOURLY, cron: '* * * * * *' }
    const { fire, passed } = plan(seconds, '2031-05-01T08:00:01Z', '2031-05-01T08:00:40Z')
    expect(fire).toHaveLength(40)
    expect(passed).toBeUndefined()
  })

  test('of a disabled schedule go by', () => {
    expect(plan({ ...HOURLY, enabled: false }, '2031-05-01T08:00:00Z', '2031-05-01T10:00:00Z')).toEqual({
      fire: [],
      passed: {
        count: 3,
        since: '2031-05-01T08:00:00.000Z',
        last: '2031-05-01T10:00:00.000Z',
        why: 'disabled',
      },
      next: '2031-05-01T11:00:00.000Z',
    })
  })

  test('of a year of seconds are planned at once, and counted up to a bound', () => {
    const began = performance.now()
    const { fire, passed } = plan(
      { ...HOURLY, cron: '* * * * * *' },
      '2030-05-01T08:00:00Z',
      '2031-05-01T08:00:00Z',
    )
    expect(fire).toHaveLength(60)
    expect(passed).toMatchObject({ count: 1000, last: '2031-05-01T07:59:00.000Z' })
    expect(performance.now() - began).toBeLessThan(5000)
  })
})

describe('the fields of a schedule', () => {
  test.each([
    [{ task: 'a', workflow: 'b', cron: '@daily' }, 'has both task and workflow'],
    [{ cron: '@daily' }, 'has neither task nor workflow'],
    [{ task: 'a' }, 'has no cron'],
    [{ workflow: 'a', cron: '@daily' }, undefined],
  ])('%j', (fields, problem) => {
    const found = scheduleProblem(fields)
    if (problem === undefined) expect(found).toBeUndefined()
    else expect(found).toContain(problem)
  })

  test('of an operator come before those of a file, and the one thing it runs is replaced as a whole', () => {
    const declared = { task: 'a', cron: '@daily', priority: 3, tags: ['x'] }
    expect(combineSchedule(declared, {})).toEqual(declared)
    expect(combineSchedule(declared, { priority: null, cron: '@hourly' })).toEqual({
      task: 'a',
      cron: '@hourly',
      priority: null,
      tags: ['x'],
    })
    expect(combineSchedule(declared, { workflow: 'b' })).toEqual({
      workflow: 'b',
      cron: '@daily',
      priority: 3,
      tags: ['x'],
    })
  })

  test.each([
    ['cron', '61 * * * *', 'schedule.cron: "61 * * * *" cannot be read: Invalid value for minute: 61'],
    ['timezone', 'Mars/Olympus', 'must be the name of a time zone'],
    ['timezone', '+02:00', 'must be the name of a time zone'],
    ['catchUp', 101, 'must be a whole number from 0 to 100'],
    ['overlap', 'queue', 'must be allow or skip'],
    ['key', 'a\0b', 'must be a text of 1 to 500 characters'],
    ['tags', ['a', ''], 'must be a list of at most 50 texts'],
    ['task', '__proto__', 'must be a name'],
    ['input', { a: 'x\0' }, 'cannot be stored: it contains a NUL character'],
  ] as const)('%s %j is refused', (field, value, message) => {
    expect(() => readScheduleField(field, value, `schedule.${field}`)).toThrow(message)
  })
})
