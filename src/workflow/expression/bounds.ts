import { isList, type JsonValue } from '../../model/json.ts'
import { MAX_JSON_BYTES } from '../../model/limits.ts'

/**
 * How much work the expressions of one template may take. A step is 20 to 60 ns: the slowest of the expressions
 * that were made to be slow took 0.3 s (2 cores, Node 20.20). Whoever renders has other things to do meanwhile.
 */
export const MAX_STEPS = 5_000_000

/** Values that expressions yield may be nested this deep. */
export const MAX_RESULT_DEPTH = 100

/** Something is beyond its bounds, or of the wrong kind. The evaluator adds where. */
export class Fault extends Error {}

/** What several templates have taken together: steps, and bytes of JSON. */
export interface Effort {
  steps: number
  bytes: number
}

/** What is left of the steps and of the output. One for all expressions of a template. */
export class Allowance {
  #steps = MAX_STEPS
  #bytes: number

  /** @param used Bytes of output that are certain. */
  constructor(used = 0) {
    this.#bytes = MAX_JSON_BYTES - used
  }

  /** Adds what has been spent so far to a larger account. */
  addTo(effort: Effort): void {
    effort.steps += MAX_STEPS - Math.max(0, this.#steps)
    effort.bytes += MAX_JSON_BYTES - Math.max(0, this.#bytes)
  }

  spend(steps: number): void {
    this.#steps -= steps
    if (this.#steps < 0) throw new Fault(`it takes more than ${MAX_STEPS} steps to work this out`)
  }

  /** For work on a text: native code looks at many characters in the time of one step. */
  spendText(length: number): void {
    this.spend(1 + length / 16)
  }

  /** For finding one text in another: the worst case is the product of the lengths. */
  spendSearch(text: string, part: string): void {
    this.spend(1 + (text.length / 256) * Math.max(1, part.length))
  }

  /**
   * Counts a value as output.
   *
   * A value may hold the same list many times over, so that its text is far longer than the memory it takes.
   * The count therefore stops at the limit and does not make the text.
   */
  spendOutput(value: JsonValue): void {
    this.#bytes -= measure(value, this.#bytes, 0)
  }
}

/** The bytes of the JSON text of a value; of one that fits into `limit`. */
export function measure(value: JsonValue, limit: number, depth: number): number {
  if (depth > MAX_RESULT_DEPTH) throw new Fault(`the value is nested deeper than ${MAX_RESULT_DEPTH} levels`)
  let bytes = 0
  const add = (more: number) => {
    bytes += more
    if (bytes > limit) throw new Fault(`the value is larger than ${MAX_JSON_BYTES} bytes as JSON`)
  }
  if (typeof value === 'string') add(textBytes(value))
  else if (typeof value !== 'object' || value === null) add(String(value).length)
  else if (isList(value)) {
    add(2 + Math.max(0, value.length - 1))
    for (const item of value) add(measure(item, limit - bytes, depth + 1))
  } else {
    const keys = Object.keys(value)
    add(2 + Math.max(0, keys.length - 1))
    for (const key of keys) {
      add(textBytes(key) + 1)
      add(measure(value[key]!, limit - bytes, depth + 1))
    }
  }
  return bytes
}

/** As JSON.stringify writes it, in UTF-8. */
export function textBytes(text: string): number {
  let bytes = text.length + 2
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i)
    if (char < 0x80) {
      if (char === 34 || char === 92) bytes += 1
      else if (char < 32) bytes += char >= 8 && char <= 13 && char !== 11 ? 1 : 5
    } else if (char < 0x800) bytes += 1
    else if (char < 0xd800 || char > 0xdfff) bytes += 2
    else bytes += 1
  }
  return bytes
}

/** The kind of a value, in the words of messages. */
export function kindOf(value: JsonValue): string {
  if (value === null) return 'null'
  if (typeof value === 'string') return 'a text'
  if (typeof value === 'number') return 'a number'
  if (typeof value === 'boolean') return 'true or false'
  return isList(value) ? 'a list' : 'a map'
}

/** As it appears inside a text: texts as they are, all else as JSON. */
export function toText(value: JsonValue, allowance: Allowance): string {
  if (typeof value === 'string') return value
  const bytes = measure(value, MAX_JSON_BYTES, 0)
  allowance.spendText(bytes)
  return JSON.stringify(value)
}
