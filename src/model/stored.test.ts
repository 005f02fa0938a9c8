import { expect, test } from 'vitest'
import { asStored } from './stored.ts'

test('orders keys as PostgreSQL does, at every depth', () => {
  const value = { bb: 1, ä: 2, a: [{ zz: 1, c: { dd: 1, e: 2 } }], Z: 3, '🎉': 4 }
  expect(JSON.stringify(asStored(value))).toBe(
    '{"Z":3,"a":[{"c":{"e":2,"dd":1},"zz":1}],"bb":1,"ä":2,"🎉":4}',
  )
})

test('keeps keys that objects inherit, and gives zero no sign', () => {
  const value = JSON.parse('{"__proto__": {"b": -0}, "constructor": 1}')
  expect(JSON.stringify(asStored(value))).toBe('{"__proto__":{"b":0},"constructor":1}')
  expect(Object.is((asStored([-0]) as number[])[0], 0)).toBe(true)
})
