import { expect, test } from 'vitest'
import { durationText, durationWords } from './time.tsx'

test('shows a setting as a config file has it, to the millisecond', () => {
  expect([2000, 90_000, 120_000, 86_400_000, 1500, 0].map(durationText)).toEqual([
    '2s',
    '90s',
    '2m',
    '1d',
    '1500ms',
    '0ms',
  ])
})

test('shows durations in their two largest units', () => {
  expect([250, 1400, 192_000, 7_500_000].map(durationWords)).toEqual([
    '250 ms',
    '1.4 s',
    '3 m 12 s',
    '2 h 5 m',
  ])
})
