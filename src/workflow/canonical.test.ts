import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { JsonValue } from '../model/json.ts'
import { canonicalJson } from './canonical.ts'

test('keys are sorted at every level, and nothing else is', () => {
  const value = { b: [3, 1, { z: null, a: 'é"' }], a: { y: 1.5, x: true } }

  expect(canonicalJson(value)).toBe('{"a":{"x":true,"y":1.5},"b":[3,1,{"a":"é\\"","z":null}]}')
})

test('maps with the same entries in another order have one text, which reads back as the value', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (drawn) => {
      const value = drawn as JsonValue
      const text = canonicalJson(value)
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
      expect(canonicalJson(turn(value))).toBe(text)
    }),
  )
})

/** The same value with the keys of its maps the other way round. */
function turn(value: JsonValue): JsonValue {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(turn)
  const entries = Object.entries(value).reverse()
  // Defined one by one, since a plain assignment to __proto__ would not make an entry.
  const turned = {}
  for (const [key, inner] of entries) {
    Object.defineProperty(turned, key, { value: turn(inner), enumerable: true })
  }
  return turned
}
