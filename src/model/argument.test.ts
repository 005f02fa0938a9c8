import { describe, expect, test } from 'vitest'
import { checkFlag, checkList, checkOptions, checkText, checkWhole, show } from './argument.ts'

describe('what was found is shown', () => {
  test.each([
    [Number.NaN, 'NaN'],
    [Number.POSITIVE_INFINITY, 'Infinity'],
    [null, 'null'],
    [undefined, 'nothing'],
    ['', '""'],
    ['x'.repeat(100), `"${'x'.repeat(60)}..."`],
    [7n, 'a bigint'],
    [Symbol('s'), 'a symbol'],
    [() => 1, 'a function'],
    [[1], 'a list'],
    [{ a: 1 }, 'an object'],
    [new Date(0), '1970-01-01T00:00:00.000Z'],
    [new Date('never'), 'a Date without a time'],
  ])('%o as %s', (value, shown) => {
    expect(show(value)).toBe(shown)
  })
})

describe('options', () => {
  test('that are all known, or not given, pass', () => {
    checkOptions({}, ['key'], 'options')
    checkOptions({ key: null, other: undefined }, ['key'], 'options')
  })

  test('that are unknown are refused with the one that was meant', () => {
    expect(() => checkOptions({ prority: 1 }, ['key', 'priority'], 'options')).toThrow(
      'options: unknown option "prority"; did you mean priority?',
    )
    expect(() => checkOptions({ poll: 1 }, ['slots', 'pollMs'], 'change')).toThrow('did you mean pollMs?')
    expect(() => checkOptions({ colour: 1 }, ['key', 'lane'], 'options')).toThrow(
      'options: unknown option "colour"; known options: key, lane',
    )
  })

  test.each([null, 7, 'text', [], () => 1])('that are %o are refused', (value) => {
    expect(() => checkOptions(value, ['key', 'lane'], 'options')).toThrow(
      `options: ${show(value)} must be an object with some of key, lane`,
    )
  })
})

test('values are given back, or refused by their name', () => {
  expect(checkText('a', 'key', { max: 1 })).toBe('a')
  expect(checkText('', 'reason', { min: 0 })).toBe('')
  expect(() => checkText('', 'name')).toThrow('name: "" must be a text that is not empty')
  expect(() => checkText(7, 'reason', { min: 0 })).toThrow('reason: 7 must be a text')
  expect(() => checkText('ab', 'key', { max: 1 })).toThrow('key: "ab" must be a text of 1 to 1 characters')
  expect(checkWhole(3, 'limit', 1, 3)).toBe(3)
  for (const wrong of [0, 4, 1.5, Number.NaN, '2', 2n])
    expect(() => checkWhole(wrong, 'limit', 1, 3)).toThrow('must be a whole number from 1 to 3')
  expect(checkFlag(false, 'enabled')).toBe(false)
  expect(() => checkFlag(0, 'enabled')).toThrow('enabled: 0 must be true or false')
  expect(checkList(['a'], 'tags', (item, name) => checkText(item, name))).toEqual(['a'])
  expect(() => checkList(['a', 1], 'tags', (item, name) => checkText(item, name))).toThrow('tags[1]: 1 must')
  expect(() => checkList('a', 'tags', (item) => item)).toThrow('tags: "a" must be a list')
})
