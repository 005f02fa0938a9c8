import { expect, test } from 'vitest'
import { allows, isWithin, NO_SCOPE, readRunScope } from './run-scope.ts'

test.each([
  ['*', 'anything', true],
  ['render', 'render', true],
  ['render', 'renders', false],
  ['render*', 'render', true],
  ['*.eu', 'mail.eu', true],
  ['*.eu', 'eu', false],
  ['a*b*c', 'a-b-b-c', true],
  ['a*b*c', 'abc', true],
  ['a*b*c', 'acb', false],
  ['a*a', 'a', false],
  ['', 'a', false],
])('the pattern %j fits %j: %j', (pattern, name, fits) => {
  expect(allows([pattern], name)).toBe(fits)
})

test('a scope is within another only if each of its patterns and bounds is', () => {
  const wide = readRunScope({ tasks: ['mail*'], lanes: ['*'], maxCapacity: 10, minRank: 0 })
  const within = (given: object) => isWithin(readRunScope(given, wide), wide)
  expect(within({})).toBe(true)
  expect(within({ tasks: ['mail.eu*', 'mail'], lanes: ['a', 'b*'], maxCapacity: 9, minRank: 5 })).toBe(true)
  for (const more of [
    { tasks: ['*'] },
    { tasks: ['m*'] },
    { pools: ['burst'] },
    { maxCapacity: null },
    { maxCapacity: 11 },
    { minRank: -1 },
  ])
    expect(within(more), JSON.stringify(more)).toBe(false)
  expect(isWithin(NO_SCOPE, readRunScope({}))).toBe(true)
})

test('what is no pattern or no bound is refused by name', () => {
  for (const [given, argument] of [
    [{ tasks: ['a b'] }, 'runs.tasks[0]'],
    [{ tasks: 'a' }, 'runs.tasks'],
    [{ maxCapacity: 0 }, 'runs.maxCapacity'],
    [{ minRank: 0.5 }, 'runs.minRank'],
    [{ task: ['a'] }, 'runs.task'],
  ] as const)
    expect(() => readRunScope(given as object)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', details: { argument } }),
    )
})
