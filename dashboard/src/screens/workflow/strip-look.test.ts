import { expect, test } from 'vitest'
import { bucketWords, columnOf, windowStretch } from './strip-look.ts'

function bucket(from: number, to: number, counts: object = {}) {
  const none = { waiting: 0, queued: 0, running: 0, completed: 0, failed: 0, cancelled: 0, skipped: 0 }
  return { from, to, ...none, ...counts }
}

test('one failure among a thousand is seen at the top of its column', () => {
  const column = columnOf(bucket(0, 999, { completed: 999, failed: 1 }))
  expect(column).toMatch(
    /^linear-gradient\(var\(--failed\) 0\.0% 15\.\d%, var\(--strip-completed\) 15\.\d% 100\.0%\)$/,
  )
})

test('a column says its places and what stands there, the worst first', () => {
  expect(bucketWords(bucket(500, 999, { completed: 498, failed: 2 }))).toBe(
    '500 to 999: 2 failed, 498 completed',
  )
  expect(bucketWords(bucket(7, 7, { running: 1 }))).toBe('7: 1 running')
})

test('the window reaches from the first column with a child in flight to the last', () => {
  const buckets = [
    bucket(0, 9),
    bucket(10, 19, { running: 1 }),
    bucket(20, 29),
    bucket(30, 39, { queued: 2 }),
  ]
  expect(windowStretch(buckets)).toEqual({ first: 1, last: 3 })
  expect(windowStretch([bucket(0, 9)])).toBeUndefined()
})
