import { SluiceError } from '../errors.ts'
import { show } from './argument.ts'
import { type Duration, formatDuration, parseDuration } from './duration.ts'
import { isName, MAX_COUNT } from './limits.ts'

/**
 * Reads one value of a setting from any source.
 *
 * The config file, the environment and options in code use the same reader, so that the same bounds apply everywhere.
 */
export interface Reader<In, Out> {
  /** Returns the stored form (durations in milliseconds), or `undefined` for an invalid value. */
  read(value: unknown): Out | undefined
  /** Reads text from the environment, where numbers are written in digits. */
  readText(text: string): Out | undefined
  /** What would be correct. Completes the sentence "write ...". */
  readonly expected: string
  /** The bound in short, for tables: `>= 0`. */
  readonly bound: string
  /** Formats a stored value as a person would write it. */
  format(value: Out): string
  /** What a command line shows in place of a value: `number|none`. */
  readonly placeholder: string
  /** The JSON type of a value as it is written, apart from words. */
  readonly written: JsonType
  /** Words that may be written instead, such as `none`. */
  readonly words: readonly string[]
  /** The JSON type of a stored value. */
  readonly stored: JsonType
  /** Never set. Carries the input type for `InputOf`. */
  readonly input?: In
}

/** What a JSON schema says of a value. */
export interface JsonType {
  readonly type: string | readonly string[]
  readonly minimum?: number
  readonly maximum?: number
  readonly [rule: string]: unknown
}

export type InputOf<R> = R extends Reader<infer In, unknown> ? In : never
export type OutputOf<R> = R extends Reader<unknown, infer Out> ? Out : never

/**
 * Reads a whole number within bounds. @param bounds `namesMax`: messages name the upper bound even if it is only the
 * database's.
 */
export function count(bounds: { min: number; max?: number; namesMax?: true }): Reader<number, number> {
  const { min, max = MAX_COUNT, namesMax = max !== MAX_COUNT } = bounds
  const upper = max === MAX_COUNT ? '' : `, <= ${max}`
  const read = (value: unknown) =>
    typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max ? value : undefined
  return {
    read,
    readText: (text) => (/^-?\d+$/.test(text) ? read(Number(text)) : undefined),
    expected: namesMax ? `a whole number from ${min} to ${max}` : `a whole number of at least ${min}`,
    bound: `>= ${min}${upper}`,
    format: String,
    placeholder: 'number',
    written: { type: 'integer', minimum: min, maximum: max },
    words: [],
    stored: { type: 'integer', minimum: min, maximum: max },
  }
}

/** Reads a number within bounds that need not be whole. */
export function number(bounds: { min: number; max: number }): Reader<number, number> {
  const { min, max } = bounds
  const read = (value: unknown) =>
    typeof value === 'number' && value >= min && value <= max ? value : undefined
  return {
    read,
    readText: (text) => (text.trim() === '' ? undefined : read(Number(text))),
    expected: `a number from ${min} to ${max}`,
    bound: `>= ${min}, <= ${max}`,
    format: String,
    placeholder: 'number',
    written: { type: 'number', minimum: min, maximum: max },
    words: [],
    stored: { type: 'number' },
  }
}

/** Reads a duration in whole milliseconds, within bounds. */
export function duration(bounds: { min: number; max: number }): Reader<Duration, number> {
  const { min, max } = bounds
  const upper = formatDuration(max)
  const read = (value: unknown) => {
    if (typeof value !== 'number' && typeof value !== 'string') return undefined
    const ms = durationOrUndefined(value)
    return ms !== undefined && ms >= min && ms <= max ? ms : undefined
  }
  return {
    read,
    // Text requires a unit, so that SLUICE_HEARTBEAT=5 is rejected instead of read as 5 ms.
    readText: read,
    expected: `a duration ${min === 1 ? 'above 0 and' : `from ${formatDuration(min)}`} up to ${upper}, such as 500ms, 15s, 10m, 4h or 7d`,
    bound: `${min === 1 ? '> 0' : `>= ${formatDuration(min)}`}, <= ${upper}`,
    format: formatDuration,
    placeholder: 'duration',
    written: { type: ['string', 'number'] },
    words: [],
    stored: { type: 'integer' },
  }
}

/** Raises smaller values to the smallest that works. */
export function noLessThan<In>(reader: Reader<In, number>, least: number): Reader<In, number> {
  const raise = (value: number | undefined) => (value === undefined ? undefined : Math.max(least, value))
  return {
    ...reader,
    read: (value) => raise(reader.read(value)),
    readText: (text) => raise(reader.readText(text)),
  }
}

function durationOrUndefined(value: Duration): number | undefined {
  try {
    return Math.round(parseDuration(value, 'duration'))
  } catch {
    return undefined
  }
}

/** Also accepts a word with its own meaning, such as `cores`. */
export function orWord<In, Out, const W extends string>(
  reader: Reader<In, Out>,
  word: W,
  meaning: Out,
): Reader<In | W, Out> {
  return {
    read: (value) => (value === word || value === meaning ? meaning : reader.read(value)),
    readText: (text) => (text === word ? meaning : reader.readText(text)),
    expected: `${reader.expected}, or ${word}`,
    bound: `${reader.bound}, or ${word}`,
    format: (value) => (value === meaning ? word : reader.format(value)),
    placeholder: `${reader.placeholder}|${word}`,
    written: withMeaning(reader.written, meaning),
    words: [...reader.words, word],
    stored: withMeaning(reader.stored, meaning),
  }
}

/** Widens the bounds, where there are some, so that the number that a word stands for lies within them. */
function withMeaning(type: JsonType, meaning: unknown): JsonType {
  const { minimum } = type
  return typeof meaning === 'number' && minimum !== undefined && meaning < minimum
    ? { ...type, minimum: meaning }
    : type
}

/** Also accepts `none` or null. */
export function orNone<In, Out>(reader: Reader<In, Out>): Reader<In | 'none' | null, Out | null> {
  return {
    read: (value) => (value === 'none' || value === null ? null : reader.read(value)),
    readText: (text) => (text === 'none' ? null : reader.readText(text)),
    expected: `${reader.expected}, or none`,
    bound: `${reader.bound}, or none`,
    format: (value) => (value === null ? 'none' : reader.format(value)),
    placeholder: `${reader.placeholder}|none`,
    written: { ...reader.written, type: [...[reader.written.type].flat(), 'null'] },
    words: [...reader.words, 'none'],
    stored: { ...reader.stored, type: [...[reader.stored.type].flat(), 'null'] },
  }
}

/** Reads a module path and, after `#`, the name of a function in it. */
export const moduleFunction: Reader<string, string> = {
  read: (value) =>
    typeof value === 'string' && value.trim() !== '' && !value.includes('\0') ? value.trim() : undefined,
  readText: (text) => moduleFunction.read(text),
  expected: 'the path of a module and, after #, the function in it to call, such as ./warm.js#load',
  bound: 'a path',
  format: String,
  placeholder: 'path',
  written: { type: 'string', minLength: 1 },
  words: [],
  stored: { type: 'string' },
}

/** True or false. */
export const flag: Reader<boolean, boolean> = {
  read: (value) => (typeof value === 'boolean' ? value : undefined),
  readText: (text) => (text === 'true' ? true : text === 'false' ? false : undefined),
  expected: 'true or false',
  bound: 'true or false',
  format: String,
  placeholder: 'true|false',
  written: { type: 'boolean' },
  words: [],
  stored: { type: 'boolean' },
}

/** Reads one of several words. */
export function choice<const W extends string>(...words: readonly W[]): Reader<W, W> {
  const list = words.join(' or ')
  const read = (value: unknown) => words.find((word) => word === value)
  return {
    read,
    readText: read,
    expected: list,
    bound: list,
    format: (value) => value,
    placeholder: words.join('|'),
    written: { type: 'string', enum: words },
    words: [],
    stored: { type: 'string', enum: words },
  }
}

/** Describes a value from a file in a few words, for an error message. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return 'nothing'
  return typeof value === 'object' && !Array.isArray(value) ? 'a map' : show(value)
}

/** Keys and list positions, from the top of a config: `['lanes', 'interactive', 'tasks', 0]`. */
export type Path = readonly (string | number)[]

/** A position in a file. Line and column count from 1. Modules have neither. */
export interface Place {
  readonly file: string
  readonly line?: number
  readonly column?: number
}

/** Returns where a key or its value is written, or the nearest known position above it. */
export type Locate = (path: Path, part: 'key' | 'value') => Place | undefined

export interface Problem {
  /** `lanes.interactive.slots`, or the environment variable or option that holds the value. */
  readonly path: string
  readonly place?: Place | undefined
  /** What was found and what would be correct. */
  readonly message: string
}

export function formatPath(path: Path): string {
  let text = ''
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`
    else if (isName(part) && !part.includes('.')) text += text === '' ? part : `.${part}`
    else text += `[${describe(part)}]`
  }
  return text
}

export function formatPlace(place: Place): string {
  return place.line === undefined ? place.file : `${place.file}:${place.line}:${place.column ?? 1}`
}

// The most problems in one message. A generated file can be wrong in every line.
const MAX_LISTED = 100

/** Creates one `INVALID_CONFIG` error with all problems, one per line. `details.problems` has them as data. */
export function invalidConfig(problems: readonly Problem[], cause?: unknown): SluiceError {
  const lines = problems.slice(0, MAX_LISTED).map((problem) => {
    const place = problem.place === undefined ? '' : `${formatPlace(problem.place)}: `
    return `${place}${problem.path === '' ? '' : `${problem.path}: `}${problem.message}`
  })
  if (problems.length > MAX_LISTED) lines.push(`and ${problems.length - MAX_LISTED} more`)
  const text = problems.length === 1 ? lines[0]! : `${problems.length} problems:\n  ${lines.join('\n  ')}`
  return new SluiceError('INVALID_CONFIG', text, {
    cause,
    details: {
      problems: problems
        .slice(0, MAX_LISTED)
        .map(({ path, place, message }) => ({ path, ...place, message })),
    },
  })
}
