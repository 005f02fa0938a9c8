import { SluiceError } from '../errors.ts'
import { isStorable } from './json.ts'
import { suggest } from './suggest.ts'

/** Describes a caller's value in a few words, for an error message. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}...` : value)
  if (value === undefined) return 'nothing'
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (value instanceof Date)
    return Number.isNaN(value.getTime()) ? 'a Date without a time' : value.toISOString()
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

/** Builds the error for a wrong argument: its name, what was found, and what would be correct. */
export function invalidArgument(name: string, found: unknown, expected: string): SluiceError {
  return new SluiceError('INVALID_ARGUMENT', `${name}: ${show(found)} must be ${expected}`, {
    details: { argument: name },
  })
}

/** The names of all options of `T`. The type makes an incomplete list a compile error. */
export function optionNames<T>(names: Readonly<Record<keyof T, true>>): readonly string[] {
  return Object.keys(names)
}

/**
 * Rejects values that are not objects, and unknown options.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT`, which names the option that was probably meant.
 */
export function checkOptions(value: unknown, known: readonly string[], name: string): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalidArgument(name, value, `an object with some of ${known.join(', ')}`)
  for (const [option, given] of Object.entries(value)) {
    if (given === undefined || known.includes(option)) continue
    const near = suggest(option, known) ?? known.find((each) => option.length > 2 && each.startsWith(option))
    const advice = near === undefined ? `known options: ${known.join(', ')}` : `did you mean ${near}?`
    throw new SluiceError('INVALID_ARGUMENT', `${name}: unknown option ${show(option)}; ${advice}`, {
      details: { argument: `${name}.${option}` },
    })
  }
}

/** Checks for text of `min` to `max` characters. */
export function checkText(value: unknown, name: string, bounds: { min?: number; max?: number } = {}): string {
  const { min = 1, max = Number.POSITIVE_INFINITY } = bounds
  if (typeof value === 'string' && value.length >= min && value.length <= max) return value
  const expected = max < Number.POSITIVE_INFINITY ? `a text of ${min} to ${max} characters` : 'a text'
  throw invalidArgument(name, value, min > 0 && expected === 'a text' ? 'a text that is not empty' : expected)
}

/** Checks for text that the database can store unchanged. */
export function checkStorable(
  value: unknown,
  name: string,
  bounds: { min?: number; max?: number } = {},
): string {
  const text = checkText(value, name, bounds)
  if (isStorable(text)) return text
  throw invalidArgument(name, text, 'a text without NUL and unpaired surrogates')
}

/** Checks for a whole number within bounds. */
export function checkWhole(value: unknown, name: string, min: number, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value
  throw invalidArgument(name, value, `a whole number from ${min} to ${max}`)
}

export function checkFlag(value: unknown, name: string): boolean {
  if (typeof value === 'boolean') return value
  throw invalidArgument(name, value, 'true or false')
}

/** Checks for a list. `check` runs for each item and gets the item's name, such as `tags[3]`. */
export function checkList<T>(value: unknown, name: string, check: (item: unknown, name: string) => T): T[] {
  if (!Array.isArray(value)) throw invalidArgument(name, value, 'a list')
  return value.map((item, index) => check(item, `${name}[${index}]`))
}

/** Checks the labels that workers offer and tasks require. */
export function checkLabels(value: unknown, name: string): object {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalidArgument(name, value, 'an object of texts, numbers and booleans')
  for (const [label, each] of Object.entries(value)) {
    if (typeof each !== 'string' && typeof each !== 'boolean' && !Number.isFinite(each))
      throw invalidArgument(`${name}.${label}`, each, 'a text, a number, true or false')
  }
  return value
}
