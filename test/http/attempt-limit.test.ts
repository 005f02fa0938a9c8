import { expect, test } from 'vitest'
import { AttemptLimit, sourceOf } from '../../src/server/callers/attempt-limit.ts'

function limited(options: { most: number; sources: number }) {
  const clock = { now: 0 }
  return { clock, limit: new AttemptLimit({ periodMs: 1000, ...options }, () => clock.now) }
}

test('a source may try so often in a period, then has to wait for its end', () => {
  const { clock, limit } = limited({ most: 2, sources: 10 })
  expect([limit.count('a'), limit.waitOf('a'), limit.count('a'), limit.waitOf('a')]).toEqual([
    true,
    0,
    true,
    1000,
  ])
  expect([limit.count('a'), limit.count('b'), limit.waitOf('b')]).toEqual([false, true, 0])
  clock.now = 999
  expect(limit.waitOf('a')).toBe(1)
  clock.now = 1000
  expect([limit.waitOf('a'), limit.count('a')]).toEqual([0, true])
})

test('it remembers so many sources and forgets those seen longest ago, so that nobody can fill the memory', () => {
  const { limit } = limited({ most: 1, sources: 3 })
  for (const source of ['a', 'b', 'c', 'a', 'd']) limit.count(source)
  expect(limit.size).toBe(3)
  expect(['a', 'b', 'c', 'd'].map((source) => limit.waitOf(source) > 0)).toEqual([true, false, true, true])
  for (let n = 0; n < 10_000; n++) limit.count(`flood ${n}`)
  expect(limit.size).toBe(3)
})

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['::1', '0:0:0:0::/64'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:DB8:1:2::9', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
])('the source of %s is %s', (address, source) => {
  expect(sourceOf(address)).toBe(source)
})
