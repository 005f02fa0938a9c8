import { expect, test } from 'vitest'
import { formatQuantity } from '../../../src/model/amount.ts'
import { amountWords } from './amount.ts'

test('memory is told as everywhere else: a device of 24GB has 24GB', () => {
  for (const bytes of [24 * 1024 ** 3, 1.5 * 1024 ** 2, 1024, 512, 3 * 1024 ** 4])
    expect(amountWords(bytes, true)).toBe(formatQuantity(bytes, true))
  expect(amountWords(24 * 1024 ** 3, true)).toBe('24GB')
  expect(amountWords(0, true)).toBe('0')
  expect(amountWords(2.5, false)).toBe('2.5')
})
