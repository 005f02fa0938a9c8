import { describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'

describe('task()', () => {
  test.each(['', '1st', 'two words', '__proto__', 'x'.repeat(101), 'a\0b', 7 as never])(
    'refuses the name %j and says what a name is',
    (name) => {
      expect(() => task({ name, run: () => null })).toThrow(
        'the name must be a name of 1 to 100 letters, digits, "_", "-" or ".", starting with a letter or "_", and not __proto__',
      )
    },
  )
})
