import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hasCode } from '../errors.ts'
import { toStorableJson, toStorableText } from './json.ts'
import { MAX_JSON_BYTES, MAX_JSON_DEPTH } from './limits.ts'

/** Texts in which everything that matters to JSON and PostgreSQL meets. */
const awkward = fc
  .array(
    fc.constantFrom(
      '\\',
      '"',
      'u0000',
      '\\u0000',
      '\0',
      '\ud83d',
      '\ude00',
      '😀',
      'ud83d',
      'null',
      '[',
      '}',
      'é',
      'x',
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''))
const value = fc.letrec<{ any: unknown }>((tie) => ({
  any: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    awkward,
    fc.double(),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('any'), { maxLength: 5 }),
    fc.dictionary(fc.oneof(awkward, fc.constantFrom('__proto__', 'constructor', '')), tie('any'), {
      maxKeys: 5,
    }),
  ),
})).any

/** What the doc comment promises, the slow way. */
function isStorable(candidate: unknown): boolean {
  if (typeof candidate === 'string') return !candidate.includes('\0') && isWellFormed(candidate)
  if (typeof candidate === 'number') return Number.isFinite(candidate)
  if (typeof candidate !== 'object' || candidate === null) return true
  return Object.entries(candidate).every(([key, each]) => isStorable(key) && isStorable(each))
}

function isWellFormed(text: string): boolean {
  return Buffer.from(text, 'utf8').toString('utf8') === text
}

function refusal(candidate: unknown): string | undefined {
  try {
    toStorableJson(candidate, 'it')
    return undefined
  } catch (error) {
    if (!hasCode(error, 'NOT_STORABLE')) throw error
    return error.message
  }
}

describe('toStorableJson', () => {
  test('gives back every value that can be stored, and refuses every other', () => {
    fc.assert(
      fc.property(value, (candidate) => {
        if (!isStorable(candidate)) expect(refusal(candidate)).toMatch(/^it cannot be stored: it contains /)
        else
          expect(JSON.parse(toStorableJson(candidate, 'it'))).toEqual(JSON.parse(JSON.stringify(candidate)))
      }),
      { numRuns: 2000 },
    )
  })

  test('counts the depth outside of texts', () => {
    const nest = (depth: number, core: string) =>
      JSON.parse(`${'['.repeat(depth)}${core}${']'.repeat(depth)}`)
    expect(refusal(nest(MAX_JSON_DEPTH, '"[[[[{{{{"'))).toBeUndefined()
    expect(refusal(nest(MAX_JSON_DEPTH, '"\\"[\\\\"'))).toBeUndefined()
    expect(refusal(nest(MAX_JSON_DEPTH + 1, '0'))).toMatch(/nested deeper than 1000 levels/)
    expect(refusal(nest(MAX_JSON_DEPTH, '[]'))).toMatch(/nested deeper/)
    fc.assert(
      fc.property(
        fc.array(awkward, { maxLength: 30 }),
        fc.integer({ min: 900, max: 1100 }),
        (texts, depth) => {
          const candidate = nest(depth - 1, JSON.stringify(texts.filter(isStorable)))
          expect(refusal(candidate) === undefined).toBe(depth <= MAX_JSON_DEPTH)
        },
      ),
    )
  })

  test('counts bytes, not characters', () => {
    const half = 'é'.repeat(MAX_JSON_BYTES / 2 - 1)
    expect(refusal(half)).toBeUndefined()
    expect(refusal(`${half}x`)).toMatch(`${MAX_JSON_BYTES + 1} bytes long, more than ${MAX_JSON_BYTES}`)
    expect(refusal('😀'.repeat(MAX_JSON_BYTES / 4))).toMatch(`${MAX_JSON_BYTES + 2} bytes`)
  })

  test('writes nothing as null, and has no form for functions and symbols', () => {
    expect(toStorableJson(undefined, 'it')).toBe('null')
    expect(toStorableJson(null, 'it')).toBe('null')
    expect(refusal(() => 1)).toBe('it cannot be stored: a function has no JSON form')
    expect(refusal(Symbol('s'))).toBe('it cannot be stored: a symbol has no JSON form')
    expect(refusal(1n)).toMatch(/BigInt/)
  })
})

describe('toStorableText', () => {
  test('is well-formed, without NUL, and bounded', () => {
    fc.assert(
      fc.property(
        fc.oneof(awkward, fc.string({ unit: 'binary' })),
        fc.integer({ min: 0, max: 20 }),
        (text, max) => {
          const stored = toStorableText(text, max)
          expect(stored).not.toContain('\0')
          expect(isWellFormed(stored)).toBe(true)
          if (text.length > max) expect(stored.endsWith(`… (${text.length} characters)`)).toBe(true)
          else expect(stored.length).toBe(text.length)
        },
      ),
      { numRuns: 1000 },
    )
  })

  test('leaves a good text as it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        fc.pre(isStorable(text))
        expect(toStorableText(text, 1000)).toBe(text)
      }),
    )
  })
})
