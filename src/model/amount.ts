import { SluiceError } from '../errors.ts'
import { show } from './argument.ts'
import type { Reader } from './setting-value.ts'

/** An amount of a budget, on each of `devices` devices. */
export interface Amount {
  readonly devices: number
  readonly each: number
}

/**
 * How much of a budget a job uses: a number, a size such as `5GB`, `{ devices: 2, each: '20GB' }` for that much on
 * each of two devices, or an expression on the input, `${{ input.pages * 0.1 }}`, that gives a number or a size.
 */
export type AmountSource = number | string | { readonly devices: number; readonly each: number | string }

/** A parsed amount. Expressions stay text. */
export type StoredAmount = Amount | string

/** The amounts that one job uses, by budget, with all expressions evaluated. */
export interface ResolvedUses {
  readonly uses: Readonly<Record<string, Amount>>
  readonly perJob: Readonly<Record<string, Amount>>
}

/** The smallest size accepted for memory. A smaller number almost certainly lacks its unit. */
export const SMALLEST_SIZE = 1024

export const AMOUNT_RULE =
  'a number of at least 0, a size such as 500MB or 5GB, { devices: 2, each: 20GB }, or ${{ an expression on the input }}'

/** Reports a `perJob` without `uses`. Completes the sentence "perJob ...". */
export const PER_JOB_ALONE =
  'requires uses, because perJob alone is not counted; add uses, with 0 for budgets that only perJob uses'

/** Sizes are binary in either spelling: 1 GB is 1 GiB, as memory is sold. */
const UNITS: Readonly<Record<string, number>> = {
  b: 1,
  k: 1024,
  m: 1024 ** 2,
  g: 1024 ** 3,
  t: 1024 ** 4,
}
const SIZE = /^(\d+(?:\.\d+)?)\s*(?:([kmgt])i?b|(b))?$/i
const MOST_DEVICES = 64
/** About an exabyte. It keeps sums of amounts far below the largest exact number. */
const MOST = 1e18

/** A number or a size; `undefined` when it is neither, negative, or more than 1e18. */
export function parseQuantity(value: unknown): number | undefined {
  if (typeof value === 'number') return value >= 0 && value <= MOST ? value : undefined
  if (typeof value !== 'string') return undefined
  const match = SIZE.exec(value.trim())
  if (match === null) return undefined
  const amount = Number(match[1]) * UNITS[(match[2] ?? match[3] ?? 'b').toLowerCase()]!
  return amount <= MOST ? amount : undefined
}

/** True for a size with a unit. Messages then show sizes. */
export function hasUnit(value: unknown): boolean {
  const text = typeof value === 'object' && value !== null && 'each' in value ? value.each : value
  return typeof text === 'string' && /\d\s*[kmgt]?i?b$/i.test(text.trim())
}

/** True for text that is one expression and nothing else. */
export function isExpression(value: unknown): value is string {
  return typeof value === 'string' && /^\s*\$\{\{.*\}\}\s*$/s.test(value)
}

/** Returns the text between the braces. */
export function expressionIn(text: string): string {
  return text.trim().slice(3, -2)
}

/** Parses an amount that is not an expression. Returns `undefined` for anything else. */
export function parseAmount(value: unknown): Amount | undefined {
  if (typeof value !== 'object' || value === null) {
    const each = parseQuantity(value)
    return each === undefined ? undefined : { devices: 1, each }
  }
  if (Array.isArray(value) || Object.keys(value).some((key) => key !== 'devices' && key !== 'each'))
    return undefined
  const { devices = 1, each } = value as { devices?: unknown; each?: unknown }
  const read = parseQuantity(each)
  const isCount =
    typeof devices === 'number' && Number.isInteger(devices) && devices >= 1 && devices <= MOST_DEVICES
  return isCount && read !== undefined ? { devices, each: read } : undefined
}

/** Reads the amounts that a job uses, from config files and code. */
export const amount: Reader<AmountSource, StoredAmount> = {
  read: (value) => (isExpression(value) ? value : parseAmount(value)),
  readText: (text) => (isExpression(text) ? text : parseAmount(text)),
  expected: AMOUNT_RULE,
  bound: '>= 0, such as 3, 0.5, 5GB',
  format: (value) => (typeof value === 'string' ? value : formatAmount(value, value.each >= 1024)),
  placeholder: 'amount',
  written: { type: ['number', 'string', 'object'] },
  words: [],
  stored: { type: ['object', 'string'] },
}

/** Reads a number or a size: what a budget or a device has. */
export const quantity: Reader<number | string, number> = {
  read: parseQuantity,
  readText: parseQuantity,
  expected: 'a number of at least 0, or a size such as 500MB or 24GB; at most 1e18',
  bound: '>= 0, such as 3, 0.5, 24GB',
  format: (value) => formatQuantity(value, value >= 1024),
  placeholder: 'amount',
  written: { type: ['number', 'string'], minimum: 0, maxLength: 100 },
  words: [],
  stored: { type: 'number' },
}

/** Formats sizes with a unit (`5368709120` as `5GB`), and everything else as a number. */
export function formatQuantity(value: number, bytes: boolean): string {
  if (!bytes || value < 1024) return String(value)
  for (const [unit, size] of [
    ['TB', 1024 ** 4],
    ['GB', 1024 ** 3],
    ['MB', 1024 ** 2],
    ['KB', 1024],
  ] as const) {
    if (value >= size) return `${Math.round((value / size) * 10) / 10}${unit}`
  }
  return String(value)
}

/** Sums of fractions are inexact, so this share of the capacity may be exceeded. */
const TOLERANCE = 1e-9

/** The free amount as shown to users: without the tolerance, sizes in whole bytes, small numbers in thousandths. */
export function roomToShow(room: number, capacity: number | null): number {
  const without = capacity === null ? room : Math.min(capacity, room - capacity * TOLERANCE)
  return Math.max(0, wholeAmount(without))
}

/** Rounds to whole numbers from a mebibyte up, because fractions of a byte mean nothing, and to thousandths below. */
export function wholeAmount(amount: number): number {
  return amount >= 1024 ** 2 ? Math.round(amount) : Math.round(amount * 1000) / 1000
}

export function formatAmount({ devices, each }: Amount, bytes: boolean): string {
  return devices === 1
    ? formatQuantity(each, bytes)
    : `${formatQuantity(each, bytes)} on each of ${devices} devices`
}

/**
 * Converts the result of an expression to an amount.
 *
 * @param where Names the task and the budget.
 * @throws {SluiceError} `INVALID_INPUT` when the result is not an amount.
 */
export function amountOf(value: unknown, where: string): Amount {
  const read = parseAmount(value)
  if (read !== undefined) return read
  throw new SluiceError('INVALID_INPUT', `${where}: found ${show(value)}; it must give ${quantity.expected}`)
}
