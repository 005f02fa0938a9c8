import { SluiceError } from '../errors.ts'
import { MAX_JSON_BYTES, MAX_JSON_DEPTH } from './limits.ts'

/** Anything JSON can express: inputs, results, and everything else stored with a job. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonMap

export type JsonMap = { readonly [key: string]: JsonValue }

export function isList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value)
}

export function isMap(value: JsonValue | undefined): value is JsonMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Serializes a value so that PostgreSQL can store it and return it unchanged.
 *
 * `undefined` becomes `null`. Everything that JSON would change silently or PostgreSQL cannot store is rejected: NaN
 * and infinities, NUL and unpaired surrogates in texts, cycles, BigInt, functions, and values that are too deep or too
 * large.
 *
 * @param what Names the value in the error, for example `input of task resize`.
 * @throws {SluiceError} `NOT_STORABLE`
 */
export function toStorableJson(value: unknown, what: string): string {
  if (value === undefined || value === null) return 'null'
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (cause) {
    const why =
      cause instanceof RangeError
        ? 'it is nested too deep'
        : cause instanceof Error
          ? cause.message
          : String(cause)
    throw notStorable(what, why, cause)
  }
  if (text === undefined) throw notStorable(what, `a ${typeof value} has no JSON form`)
  if (text.length > MAX_JSON_BYTES / 4 && byteLength(text) > MAX_JSON_BYTES) {
    throw notStorable(what, `it is ${byteLength(text)} bytes long, more than ${MAX_JSON_BYTES}`)
  }
  // Each test below is a search in native code that almost never matches.
  if (text.includes('null')) checkNumbers(value, what, 0)
  if (text.includes('\\u0000') || text.includes('\\ud')) checkEscapes(text, what)
  checkDepth(text, what)
  return text
}

/** JSON writes NaN and infinities as null, so only texts with null need this check. */
function checkNumbers(value: unknown, what: string, depth: number): void {
  if (typeof value === 'number' && !Number.isFinite(value)) throw notStorable(what, `it contains ${value}`)
  if (typeof value !== 'object' || value === null || depth > MAX_JSON_DEPTH) return
  if ('toJSON' in value && typeof value.toJSON === 'function') return
  for (const item of Array.isArray(value) ? value : Object.values(value)) checkNumbers(item, what, depth + 1)
}

function checkEscapes(text: string, what: string): void {
  // An even number of backslashes before the u escapes a backslash, not a character.
  const found = /(?<!\\)(?:\\\\)*\\u(0000|d[89a-f][0-9a-f]{2})/.exec(text)
  if (found === null) return
  throw notStorable(
    what,
    found[1] === '0000' ? 'it contains a NUL character' : 'it contains an unpaired surrogate',
  )
}

/** @throws {SluiceError} `NOT_STORABLE` when a JSON text is nested deeper than 1000 levels. */
export function checkDepth(text: string, what: string): void {
  if (text.length <= 2 * MAX_JSON_DEPTH) return
  let depth = 0
  let inText = false
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i)
    if (inText) {
      if (char === 92) i++
      else if (char === 34) inText = false
    } else if (char === 34) inText = true
    else if (char === 91 || char === 123) {
      if (++depth > MAX_JSON_DEPTH)
        throw notStorable(what, `it is nested deeper than ${MAX_JSON_DEPTH} levels`)
    } else if (char === 93 || char === 125) depth--
  }
}

/** The length of a text in UTF-8. */
export function byteLength(text: string): number {
  let bytes = text.length
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i)
    if (char > 0x7ff) bytes += char >= 0xd800 && char <= 0xdfff ? 1 : 2
    else if (char > 0x7f) bytes += 1
  }
  return bytes
}

function notStorable(what: string, why: string, cause?: unknown): SluiceError {
  return new SluiceError('NOT_STORABLE', `${what} cannot be stored: ${why}`, { cause })
}

/** Removes characters that PostgreSQL rejects and cuts the text to `max` characters. For errors and log lines. */
export function toStorableText(text: string, max: number): string {
  const cut = text.length > max ? `${text.slice(0, max)}… (${text.length} characters)` : text
  return isStorable(cut) ? cut : cut.replaceAll('\0', '\u2400').replace(LONE_SURROGATE, '\ufffd')
}

const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** Whether PostgreSQL can store a text: no NUL, no unpaired surrogate. */
export function isStorable(text: string): boolean {
  // TypeScript's library for this target does not declare a method that Node has.
  return !text.includes('\0') && (text as string & { isWellFormed(): boolean }).isWellFormed()
}

/** JSON text of an object, which is not empty, with one more member. @param value JSON text. */
export function withMember(object: string, name: string, value: string): string {
  return `${object.slice(0, -1)},"${name}":${value}}`
}
