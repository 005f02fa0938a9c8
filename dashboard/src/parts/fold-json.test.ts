import { expect, test } from 'vitest'
import { foldJson, formatJson } from './fold-json.ts'

const numbers = Array.from({ length: 200 }, (_, n) => n)

test('folds a list of 200 numbers to one line that says how many there are', () => {
  expect(foldJson({ items: numbers, name: 'import' })).toEqual({
    text: '{\n  "items": [0, 1, 2, 3, 4, 5, 6, 7, … 200 numbers],\n  "name": "import"\n}',
    folded: true,
  })
})

test('folds a list of long strings to one line as well', () => {
  const { text } = foldJson(numbers.map((n) => `https://example.com/items/${n}`))
  expect(text).toBe('["https://example.com/items/0", … 200 strings]')
})

test('writes what fits in a line in one line, and breaks what does not', () => {
  expect(foldJson({ n: 5, hold: true, tags: ['a', 'b'] })).toEqual({
    text: '{ "n": 5, "hold": true, "tags": ["a", "b"] }',
    folded: false,
  })
  const long = 'word '.repeat(16).trim()
  expect(formatJson({ text: long, list: [] })).toBe(`{\n  "text": "${long}",\n  "list": []\n}`)
})

test.each([
  [null],
  ['text'],
  [{ items: numbers, deep: { list: numbers.map((n) => ({ n, name: `item ${n}` })) } }],
  [[numbers, ['a'.repeat(90)], {}, []]],
])('without folds, the text is the same JSON: %#', (value) => {
  const text = formatJson(value)
  expect(JSON.parse(text)).toEqual(value)
})

test('without folds, a list of numbers fills its lines', () => {
  expect(formatJson(numbers).split('\n').length).toBeLessThan(20)
})
