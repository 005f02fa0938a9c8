import { expect, test } from 'vitest'
import { suggest } from './suggest.ts'

const KEYS = ['tasks', 'slots', 'perWorker', 'poll', 'stale', 'enabled', 'ageing', 'cycleMax']

test.each([
  ['slot', 'slots'],
  ['slosts', 'slots'],
  ['solts', 'slots'],
  ['per_worker', 'perWorker'],
  ['perworker', 'perWorker'],
  ['cycle-max', 'cycleMax'],
  ['enable', 'enabled'],
  ['aging', 'ageing'],
  ['pol', 'poll'],
])('%s is taken for %s', (word, known) => {
  expect(suggest(word, KEYS)).toBe(known)
})

test.each(['', 'x', 'concurrency', 'priority', 's'.repeat(100_000)])(
  'nothing is suggested for a word as far as "%.20s"',
  (word) => {
    expect(suggest(word, KEYS)).toBeUndefined()
  },
)
