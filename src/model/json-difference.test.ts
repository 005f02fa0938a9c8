import { describe, expect, test } from 'vitest'
import { differences } from './json-difference.ts'

describe('differences', () => {
  test('equal values have none, whatever the order of their keys', () => {
    expect(differences({ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 }, 9)).toEqual([])
  })

  test('have the path to the smallest part that differs', () => {
    expect(
      differences({ rows: [{ name: 'a' }, { name: 'b' }] }, { rows: [{ name: 'a' }, { name: 'c' }] }, 9),
    ).toEqual([{ path: 'rows[1].name', here: 'b', there: 'c' }])
    expect(differences(1, '1', 9)).toEqual([{ path: '', here: 1, there: '1' }])
    expect(differences({ a: [] }, { a: {} }, 9)).toEqual([{ path: 'a', here: [], there: {} }])
  })

  test('what only one of them has stands against nothing', () => {
    expect(differences({ a: null }, {}, 9)).toEqual([{ path: 'a', here: null, there: undefined }])
    expect(differences([1], [1, 2], 9)).toEqual([{ path: '[1]', here: undefined, there: 2 }])
  })

  test('names that are no plain words are quoted, also those every object knows', () => {
    expect(differences({ 'a b': 1 }, JSON.parse('{"__proto__": 2, "a b": 1}'), 9)).toEqual([
      { path: '__proto__', here: undefined, there: 2 },
    ])
    expect(differences({ 'a.b': 1 }, { 'a.b': 2 }, 9)[0]!.path).toBe('["a.b"]')
  })

  test('stop at the limit', () => {
    expect(differences([1, 2, 3, 4], [5, 6, 7, 8], 2).map(({ path }) => path)).toEqual(['[0]', '[1]'])
  })
})
