import { expect, test } from 'vitest'
import {
  amount,
  amountOf,
  formatAmount,
  formatQuantity,
  hasUnit,
  isExpression,
  parseQuantity,
} from './amount.ts'

test('reads numbers and sizes, which are binary however they are written', () => {
  for (const [written, bytes] of [
    [3, 3],
    [0.5, 0.5],
    [0, 0],
    ['3', 3],
    ['0.5', 0.5],
    ['512B', 512],
    ['1KB', 1024],
    ['1kib', 1024],
    ['1.5 MB', 1.5 * 1024 ** 2],
    ['5GB', 5 * 1024 ** 3],
    ['24GiB', 24 * 1024 ** 3],
    ['2tb', 2 * 1024 ** 4],
  ] as const)
    expect(parseQuantity(written)).toBe(bytes)
})

test('refuses what is negative, not finite, of an unknown unit, or no quantity at all', () => {
  for (const bad of [
    -1,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    1.1e18,
    '2000000TB',
    '-1GB',
    '5XB',
    '5 G',
    'GB',
    '',
    '1e3',
    'NaN',
    'Infinity',
    null,
    true,
    {},
    [1],
    `${'9'.repeat(400)}GB`,
  ])
    expect(parseQuantity(bad)).toBeUndefined()
})

test('an amount may be meant for each of several devices', () => {
  expect(amount.read('5GB')).toEqual({ devices: 1, each: 5 * 1024 ** 3 })
  expect(amount.read({ devices: 2, each: '20GB' })).toEqual({ devices: 2, each: 20 * 1024 ** 3 })
  expect(amount.read({ each: 1 })).toEqual({ devices: 1, each: 1 })
  for (const bad of [
    { devices: 0, each: 1 },
    { devices: 1.5, each: 1 },
    { devices: 2 },
    { devices: 2, each: -1 },
    { devices: 2, each: 1, more: 1 },
    { devices: 65, each: 1 },
  ])
    expect(amount.read(bad)).toBeUndefined()
})

test('an expression stays text, and is one only as a whole', () => {
  expect(amount.read('${{ input.pages * 0.1 }}')).toBe('${{ input.pages * 0.1 }}')
  expect(isExpression('about ${{ input.pages }}')).toBe(false)
  expect(amount.read('about ${{ input.pages }}')).toBeUndefined()
})

test('what an expression gives must be an amount', () => {
  expect(amountOf(2, 'x')).toEqual({ devices: 1, each: 2 })
  expect(amountOf('2GB', 'x').each).toBe(2 * 1024 ** 3)
  expect(() => amountOf('lots', 'uses.vram of task align')).toThrow(/uses.vram of task align: found "lots"/)
  expect(() => amountOf(-1, 'x')).toThrow(/at least 0/)
})

test('amounts are shown as they would be written', () => {
  expect(formatQuantity(5 * 1024 ** 3, true)).toBe('5GB')
  expect(formatQuantity(1.5 * 1024 ** 4, true)).toBe('1.5TB')
  expect(formatQuantity(512, true)).toBe('512')
  expect(formatQuantity(2048, false)).toBe('2048')
  expect(formatAmount({ devices: 2, each: 1024 ** 2 }, true)).toBe('1MB on each of 2 devices')
  expect(hasUnit('5GB')).toBe(true)
  expect(hasUnit({ devices: 2, each: '1MB' })).toBe(true)
  expect(hasUnit('5')).toBe(false)
  expect(hasUnit(5)).toBe(false)
})
