import { describe, expect, test } from 'vitest'
import { includes, parseSnapshot, readShortSnapshot, shortSnapshot, wholeXid } from './snapshot.ts'

describe('a snapshot', () => {
  test('includes what had ended, and neither what ran nor what came later', () => {
    const snapshot = parseSnapshot('10:20:12,14')
    expect([9n, 10n, 12n, 13n, 14n, 19n, 20n, 21n].filter((xid) => includes(snapshot, xid))).toEqual([
      9n,
      10n,
      13n,
      19n,
    ])
    expect(includes(parseSnapshot('10:10:'), 9n)).toBe(true)
  })

  test('survives as a short text', () => {
    for (const text of ['10:10:', '10:20:12,14', '98765432109:98765432200:98765432109,98765432150']) {
      const short = shortSnapshot(parseSnapshot(text))
      expect(short).toMatch(/^[0-9a-z.]+$/)
      expect(readShortSnapshot(short)).toEqual(parseSnapshot(text))
    }
    expect(shortSnapshot(parseSnapshot('10:13:10,11'))).toBe('a.3.0.1')
  })

  test('is not read from anything else', () => {
    for (const text of ['', '1', 'a.', '.a', 'A.1', 'a.b.!', 'a'.repeat(14)])
      expect(readShortSnapshot(text), text).toBeUndefined()
  })
})

describe('the number of a transaction', () => {
  test('is completed by what the reader knows', () => {
    const late = parseSnapshot(`${5n * (1n << 32n) + 100n}:${5n * (1n << 32n) + 100n}:`)
    expect(wholeXid('50', late)).toBe(5n * (1n << 32n) + 50n)
    // Written before the lower half began anew.
    expect(wholeXid('4000000000', late)).toBe(4n * (1n << 32n) + 4000000000n)
    // Frozen.
    expect(wholeXid('2', late)).toBe(0n)
  })
})
