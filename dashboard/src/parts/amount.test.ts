import { expect, test } from 'vitest'
import { amountWords } from './amount.ts'

test('shows memory as settings and the server write it: a device of 24GB has 24GB', () => {
  const told = [24 * 1024 ** 3, 1.5 * 1024 ** 2, 1024, 512, 3 * 1024 ** 4, 0].map((each) =>
    amountWords(each, true),
  )
  expect(told).toEqual(['24GB', '1.5MB', '1KB', '512', '3TB', '0'])
  expect(amountWords(2.5, false)).toBe('2.5')
})
