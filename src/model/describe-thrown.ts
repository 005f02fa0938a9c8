import { detailText, type ErrorDetail, firstOf, fitDetail, WIDEST } from './error-detail.ts'
import type { JsonMap, JsonValue } from './json.ts'
import { stackFrames } from './stack-frames.ts'

export interface DescribeOptions {
  /** Prefixes of paths whose frames are not part of the task's code, such as Sluice's own folder. */
  readonly foreign?: readonly string[]
  /** Returns the detail of an error that was described elsewhere and whose class and stack were lost on the way. */
  readonly known?: (thrown: object) => ErrorDetail | undefined
}

/** The most values read from one error, because a task may throw a very large object. */
const MOST_VALUES = 1000
const BESIDES = new Set(['name', 'message', 'stack', 'cause', 'errors'])
const UNREADABLE = '[unreadable]'

/**
 * Describes anything that was thrown. Never throws: getters and proxies are the task's code and may fail, so each
 * value is read once.
 */
export function describeThrown(thrown: unknown, options: DescribeOptions = {}): ErrorDetail {
  const detail = read(() => new Description(options).describe(thrown, WIDEST.causes))
  return fitDetail(detail ?? { class: 'unknown', message: 'the task threw something that cannot be read' })
}

class Description {
  readonly #options: DescribeOptions
  readonly #errors = new Set<unknown>()
  #left = MOST_VALUES

  constructor(options: DescribeOptions) {
    this.#options = options
  }

  describe(thrown: unknown, causesLeft: number): ErrorDetail {
    if (!isObject(thrown)) return { class: typeOf(thrown), message: text(String(thrown)) }
    const known = this.#options.known?.(thrown)
    if (known !== undefined) return known
    if (this.#errors.has(thrown)) return { class: classOf(thrown), message: '[repeated]' }
    if (this.#left-- <= 0) return { class: classOf(thrown), message: '[…]' }
    this.#errors.add(thrown)
    return isError(thrown) ? this.#describeError(thrown, causesLeft) : this.#describeValue(thrown)
  }

  #describeError(thrown: Error, causesLeft: number): ErrorDetail {
    const stack = read(() => thrown.stack)
    const cause = read(() => thrown.cause)
    const errors = read(() => (thrown as Error & { errors?: unknown }).errors)
    const several = Array.isArray(errors)
      ? (read(() => Array.from(errors.slice(0, WIDEST.errors))) ?? [])
      : []
    const properties = this.#propertiesOf(thrown)
    const frames =
      typeof stack === 'string' ? stackFrames(stack, this.#options.foreign ?? [], WIDEST.frames) : []
    const name = classOf(thrown)
    // The location of Sluice's own errors within Sluice does not help users.
    const hasPlace = name !== 'SluiceError' || frames.some(({ own }) => own === true)
    return {
      class: name,
      message: text(read(() => String(thrown.message)) ?? UNREADABLE),
      ...(frames.length > 0 &&
        hasPlace && { stack: frames.map((each) => ({ ...each, line: detailText(each.line, 400) })) }),
      ...(properties !== undefined && { properties }),
      ...(cause !== undefined &&
        cause !== null &&
        causesLeft > 0 && { cause: this.describe(cause, causesLeft - 1) }),
      ...(several.length > 0 &&
        causesLeft > 0 && { errors: several.map((each) => this.describe(each, causesLeft - 1)) }),
    }
  }

  #describeValue(thrown: object): ErrorDetail {
    const own = read(() => ownText(thrown))
    const value = this.#contentOf(thrown, WIDEST.depth, [])
    const content = typeof value === 'string' ? value : JSON.stringify(value)
    return { class: classOf(thrown), message: text(own ?? content), value }
  }

  #propertiesOf(thrown: Error): JsonMap | undefined {
    const names = (read(() => Object.keys(thrown)) ?? []).filter((name) => !BESIDES.has(name))
    const entries = names.slice(0, WIDEST.items).flatMap((name): [string, JsonValue][] => {
      const value = this.#contentOf(this.#field(thrown, name), WIDEST.depth - 1, [thrown])
      return value === undefined ? [] : [[detailText(name, 200), value]]
    })
    return entries.length === 0 ? undefined : Object.fromEntries(entries)
  }

  #field(owner: object, name: string): unknown {
    try {
      return (owner as Readonly<Record<string, unknown>>)[name]
    } catch {
      return UNREADABLE
    }
  }

  #contentOf(value: unknown, depth: number, above: readonly object[]): JsonValue {
    if (value === null || typeof value === 'boolean') return value
    if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
    if (typeof value === 'string') return text(value)
    if (typeof value === 'function') return `[function ${read(() => text(String(value.name))) ?? ''}]`
    if (!isObject(value)) return text(String(value))
    if (above.includes(value)) return '[circular]'
    if (depth === 0 || this.#left-- <= 0) return '[…]'
    return read(() => this.#contentOfObject(value, depth - 1, [...above, value])) ?? UNREADABLE
  }

  #contentOfObject(value: object, depth: number, above: readonly object[]): JsonValue {
    const next = (item: unknown) => this.#contentOf(item, depth, above)
    if (isError(value)) {
      return { class: classOf(value), message: text(read(() => String(value.message)) ?? UNREADABLE) }
    }
    if (ArrayBuffer.isView(value)) return `[${classOf(value)} of ${value.byteLength} bytes]`
    if (value instanceof RegExp) return text(String(value))
    if (value instanceof Map) return [...value].slice(0, WIDEST.items).map(next)
    if (value instanceof Set) return [...value].slice(0, WIDEST.items).map(next)
    if ('toJSON' in value && typeof value.toJSON === 'function') return next(value.toJSON())
    // Array.from turns holes into `undefined`.
    if (Array.isArray(value)) return Array.from(value.slice(0, WIDEST.items), next)
    const { kept, left } = firstOf(Object.keys(value), WIDEST.items)
    const fields = kept.flatMap((name): [string, JsonValue][] => {
      const field = this.#field(value, name)
      return field === undefined ? [] : [[detailText(name, 200), next(field)]]
    })
    return Object.fromEntries(left === 0 ? fields : [...fields, ['…', `${left} more`]])
  }
}

/** The default names of errors. A subclass with one of them is known only by its constructor. */
const GIVEN_NAMES =
  /^(?:Error|EvalError|RangeError|ReferenceError|SyntaxError|TypeError|URIError|AggregateError|Object)$/

/** Returns the name of an object's class. Never throws. */
export function classOf(value: object): string {
  const made = read(() => value.constructor?.name)
  const named = read(() => (isError(value) ? value.name : undefined))
  const isNamed = typeof named === 'string' && named !== '' && !GIVEN_NAMES.test(named)
  const name = isNamed ? named : typeof made === 'string' && made !== '' ? made : named
  const unnamed = isError(value) ? 'Error' : 'Object'
  return detailText(typeof name === 'string' && name !== '' ? name : unnamed, 200)
}

function typeOf(value: unknown): string {
  return value === null ? 'null' : typeof value
}

/** Returns the text of an object that has its own `toString`. */
function ownText(value: object): string | undefined {
  if (Array.isArray(value) || typeof value === 'function' || value.toString === Object.prototype.toString)
    return undefined
  const said: unknown = value.toString()
  return typeof said === 'string' && said !== '' ? said : undefined
}

function text(value: string): string {
  return detailText(value, WIDEST.text)
}

/** Also recognizes errors of other realms, because code in a vm has its own `Error`. */
function isError(value: object): value is Error {
  return (
    read(() => value instanceof Error || Object.prototype.toString.call(value) === '[object Error]') === true
  )
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}

function read<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch {
    return undefined
  }
}
