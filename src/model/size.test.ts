import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hasCode } from '../errors.ts'
import { formatSize, parseSize } from './size.ts'

describe('parseSize', () => {
  test.each([
    ['24GB', 24_000_000_000],
    ['512MiB', 536_870_912],
    ['1.5GB', 1_500_000_000],
    ['1.1GB', 1_100_000_000],
    ['3kB', 3000],
    ['3KB', 3000],
    [' 2 TiB ', 2_199_023_255_552],
    ['0B', 0],
    [4096, 4096],
  ])('reads %s as %d bytes', (text, bytes) => {
    expect(parseSize(text, 'x')).toBe(bytes)
  })

  test.each([
    '',
    '24',
    '24 gb',
    '24Gb',
    '24G',
    '-1GB',
    '1e3MB',
    'GB',
    '1GB2MB',
    '9000000TB',
    Number.NaN,
    Number.POSITIVE_INFINITY,
    -1,
    1.5,
  ])('refuses %s and names the setting', (value) => {
    try {
      parseSize(value, 'tasks.align.uses.vram')
      expect.unreachable('it was accepted')
    } catch (error) {
      expect(hasCode(error, 'INVALID_ARGUMENT')).toBe(true)
      expect(String(error)).toContain('tasks.align.uses.vram')
      expect(String(error)).toContain('512MiB')
    }
  })
})

describe('formatSize', () => {
  test.each([
    [24_000_000_000, '24GB'],
    [536_870_912, '512MiB'],
    [1_500_000_000, '1.5GB'],
    [1024, '1KiB'],
    [1, '1B'],
    [0, '0B'],
    [1_000_001, '1000001B'],
  ])('writes %d bytes as %s', (bytes, text) => {
    expect(formatSize(bytes)).toBe(text)
  })

  test('writes a text that reads back to the same bytes', () => {
    const unit = fc.constantFrom(1, 1e3, 1e6, 1e9, 2 ** 10, 2 ** 20, 2 ** 30)
    const round = fc.tuple(fc.integer({ min: 0, max: 4096 }), unit).map(([count, size]) => count * size)
    fc.assert(
      fc.property(fc.oneof(fc.maxSafeNat(), round), (bytes) => {
        expect(parseSize(formatSize(bytes), 'x')).toBe(bytes)
      }),
    )
  })
})
