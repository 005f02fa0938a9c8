import { isList, isMap, type JsonValue } from '../../model/json.ts'
import { MAX_JSON_BYTES } from '../../model/limits.ts'
import { type Allowance, Fault, kindOf, toText } from './bounds.ts'

/** A function of the language. Its work is charged to the allowance before it is done. */
export interface Operation {
  /** How many arguments it takes, the value before the dot not counted. */
  readonly least: number
  readonly most: number
  readonly run: (args: readonly JsonValue[], allowance: Allowance) => JsonValue
}

/** Called as `size(list)`. A Map, so that `constructor` is no function. */
export const FUNCTIONS: ReadonlyMap<string, Operation> = new Map([
  ['size', { least: 1, most: 1, run: ([value], allowance) => size(value!, allowance) }],
  ['string', { least: 1, most: 1, run: ([value], allowance) => toText(value!, allowance) }],
  ['int', { least: 1, most: 1, run: ([value]) => toInteger(value!) }],
  ['double', { least: 1, most: 1, run: ([value]) => toNumber(value!) }],
  ['range', { least: 1, most: 1, run: ([value], allowance) => range(value!, allowance) }],
] satisfies [string, Operation][])

/** Called as `text.contains(part)`; the value before the dot is the first argument. */
export const METHODS: ReadonlyMap<string, Operation> = new Map([
  ['size', { least: 0, most: 0, run: ([value], allowance) => size(value!, allowance) }],
  ['contains', { least: 1, most: 1, run: (args, allowance) => contains(args, allowance) }],
  [
    'startsWith',
    { least: 1, most: 1, run: (args, allowance) => startsOrEnds(args, 'startsWith', allowance) },
  ],
  ['endsWith', { least: 1, most: 1, run: (args, allowance) => startsOrEnds(args, 'endsWith', allowance) }],
  ['split', { least: 1, most: 1, run: (args, allowance) => split(args, allowance) }],
  ['join', { least: 0, most: 1, run: (args, allowance) => join(args, allowance) }],
  ['flatten', { least: 0, most: 0, run: ([value], allowance) => flatten(value!, allowance) }],
] satisfies [string, Operation][])

/** Characters of a text (code points), elements of a list, keys of a map. */
function size(value: JsonValue, allowance: Allowance): number {
  if (typeof value === 'string') {
    allowance.spend(1 + value.length / 4)
    let count = 0
    for (const _ of value) count += 1
    return count
  }
  if (isList(value)) return value.length
  if (!isMap(value)) throw new Fault(`size() takes a text, a list or a map, not ${kindOf(value)}`)
  const count = Object.keys(value).length
  allowance.spend(count)
  return count
}

/** Longer texts hold no number that is worth reading. Keeps the patterns below from taking long. */
const MAX_NUMERAL = 400

/** Towards zero. */
function toInteger(value: JsonValue): number {
  if (typeof value === 'number') return Math.trunc(value)
  const number = typeof value === 'string' && /^[+-]?\d{1,20}$/.test(value) ? Number(value) : Number.NaN
  if (Number.isSafeInteger(number)) return number
  throw new Fault(
    typeof value === 'string'
      ? 'int() takes a text that is a whole number of up to 15 digits'
      : `int() takes a number or a text, not ${kindOf(value)}`,
  )
}

function toNumber(value: JsonValue): number {
  if (typeof value === 'number') return value
  if (typeof value !== 'string') throw new Fault(`double() takes a number or a text, not ${kindOf(value)}`)
  const isNumeral = value.length <= MAX_NUMERAL && /^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(value)
  const number = isNumeral ? Number(value) : Number.NaN
  if (Number.isFinite(number)) return number
  throw new Fault('double() takes a text that is a number')
}

function range(value: JsonValue, allowance: Allowance): JsonValue {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) {
    throw new Fault('range() takes a whole number, 0 or more')
  }
  allowance.spend(value)
  return Array.from({ length: value }, (_, index) => index)
}

function contains(args: readonly JsonValue[], allowance: Allowance): boolean {
  if (isList(args[0]!)) throw new Fault('.contains() looks into texts; for a list write: value in list')
  const [text, part] = texts('.contains()', args)
  allowance.spendSearch(text, part)
  return text.includes(part)
}

function startsOrEnds(
  args: readonly JsonValue[],
  how: 'startsWith' | 'endsWith',
  allowance: Allowance,
): boolean {
  const [text, part] = texts(`.${how}()`, args)
  allowance.spendText(part.length)
  return text[how](part)
}

/** An empty separator splits into characters (code points), so that no half of one is left over. */
function split(args: readonly JsonValue[], allowance: Allowance): JsonValue {
  const [text, separator] = texts('.split()', args)
  allowance.spendSearch(text, separator)
  if (separator === '') allowance.spend(text.length)
  const parts = separator === '' ? [...text] : text.split(separator)
  allowance.spend(parts.length)
  return parts
}

function join([list, separator = '']: readonly JsonValue[], allowance: Allowance): string {
  if (!isList(list!)) throw new Fault(`.join() takes a list, not ${kindOf(list!)}`)
  if (typeof separator !== 'string')
    throw new Fault(`.join() takes a text to put between, not ${kindOf(separator)}`)
  allowance.spend(list.length)
  let length = separator.length * list.length
  for (const item of list) {
    if (typeof item !== 'string') {
      throw new Fault(
        `.join() takes a list of texts; this one has ${kindOf(item)}: use .map(x, string(x)) first`,
      )
    }
    length += item.length
  }
  checkLength(length)
  allowance.spendText(length)
  return list.join(separator)
}

/** One level: lists in the list are replaced by their elements. */
function flatten(value: JsonValue, allowance: Allowance): JsonValue {
  if (!isList(value)) throw new Fault(`.flatten() takes a list, not ${kindOf(value)}`)
  const flat: JsonValue[] = []
  for (const item of value) {
    allowance.spend(isList(item) ? 1 + item.length : 1)
    if (isList(item)) for (const inner of item) flat.push(inner)
    else flat.push(item)
  }
  return flat
}

function texts(name: string, [text, other]: readonly JsonValue[]): readonly [string, string] {
  if (typeof text === 'string' && typeof other === 'string') return [text, other]
  const wrong = typeof text === 'string' ? other! : text!
  throw new Fault(`${name} takes texts, not ${kindOf(wrong)}`)
}

/** Refuses a text that is too long before it is made. */
export function checkLength(length: number): void {
  if (length > MAX_JSON_BYTES) throw new Fault(`the text is longer than ${MAX_JSON_BYTES} characters`)
}
