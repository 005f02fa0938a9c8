import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findInexactNumber, staysExact } from './exact-numbers.ts'

describe('a number in a JSON text', () => {
  test.each([
    ['9007199254740993', '', '9007199254740993'],
    ['-9007199254740993', '', '-9007199254740993'],
    ['{"a":{"b":[1,{"id":9007199254740993}]}}', 'a.b[1].id', '9007199254740993'],
    ['[[1,2],[3,12345678901234567890]]', '[1][1]', '12345678901234567890'],
    ['{"a":"x","b":[{"c":1},2,1e400]}', 'b[2]', '1e400'],
    ['{"tiny":1e-400}', 'tiny', '1e-400'],
    ['{"pi":3.14159265358979323846}', 'pi', '3.14159265358979323846'],
    ['{"9007199254740993":{"a\\"b":9007199254740993}}', '9007199254740993.a"b', '9007199254740993'],
    ['9007199254740993.0', '', '9007199254740993.0'],
    ['900719925474099300e-2', '', '900719925474099300e-2'],
  ])('%s is found where it is', (text, path, written) => {
    expect(findInexactNumber(text)).toEqual({ path, written })
  })

  test.each([
    '9007199254740992',
    '9007199254740991',
    '123456789012345680000',
    '1e23',
    '0.1000000000000000000000',
    '0.10000000000000001',
    '3.141592653589793',
    '1.7976931348623157e308',
    '5e-324',
    '-0',
    '0e999',
    '{"id":"9007199254740993","9007199254740993":1}',
    '"12345678901234567890 \\" 9007199254740993"',
    '{}',
    '[]',
  ])('%s stays as it is', (text) => {
    expect(findInexactNumber(text)).toBeUndefined()
  })
})

test('everything that JavaScript writes is exact, wherever it is', () => {
  fc.assert(
    fc.property(
      fc.jsonValue({ maxDepth: 4 }),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      (value, number) => {
        expect(findInexactNumber(JSON.stringify([value, number]))).toBeUndefined()
      },
    ),
    { numRuns: 300 },
  )
})

test('a whole number is exact where its double is that number', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 80n), max: 2n ** 80n }), (whole) => {
      const exact = BigInt(Number(whole)) === whole
      // A double that is not written with all its digits is written shorter, and read back as the same.
      if (staysExact(String(whole))) expect(Number(String(whole))).toBe(Number(whole))
      else expect(String(Number(whole))).not.toBe(String(whole))
      if (!exact) expect(staysExact(String(whole))).toBe(false)
    }),
  )
})
