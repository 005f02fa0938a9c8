import { byteLength, isList, isMap, type JsonMap, type JsonValue, toStorableText } from './json.ts'
import { withoutSecrets } from './redact.ts'

/** What is stored of anything that an attempt threw. JSON, at most `MAX_DETAIL_BYTES` long. */
export interface ErrorDetail {
  /**
   * The error's class: `TypeError`, `HttpError`. For a thrown value that is not an error, its type: `string`,
   * `Object`.
   */
  readonly class: string
  readonly message: string
  /** The innermost frame first. */
  readonly stack?: readonly StackFrame[]
  /** Other properties of the error, such as `code` and `status`. */
  readonly properties?: JsonMap
  /** The content of a thrown object that is not an error. */
  readonly value?: JsonValue
  readonly cause?: ErrorDetail
  /** The errors of an AggregateError. */
  readonly errors?: readonly ErrorDetail[]
  /** Parts were left out to stay within the bound. */
  readonly cut?: true
}

export interface StackFrame {
  /** As the runtime writes it, without "at": `charge (/app/src/pay.ts:12:9)`. */
  readonly line: string
  /** The frame is the task's own code, not the runtime's, a dependency's or Sluice's. */
  readonly own?: true
}

/** Room for several causes with their stacks. Errors are not meant to carry data. */
export const MAX_DETAIL_BYTES = 16_384

/** The most that is kept of each part. All bounds are halved until the whole fits. */
export interface DetailBounds {
  readonly text: number
  readonly frames: number
  readonly items: number
  readonly depth: number
  readonly causes: number
  readonly errors: number
}

export const WIDEST: DetailBounds = { text: 4096, frames: 50, items: 100, depth: 8, causes: 8, errors: 20 }

/** Longer texts are cut before secrets are searched for, because a task may throw megabytes. */
const MOST_SEARCHED = 65_536

/** Returns storable text without secrets, at most `max` characters long. */
export function detailText(text: string, max: number): string {
  const clean = withoutSecrets(text.length > MOST_SEARCHED ? text.slice(0, MOST_SEARCHED) : text)
  return toStorableText(clean.length > max ? `${clean.slice(0, max - 1)}…` : clean, max)
}

/** Fits the detail into `MAX_DETAIL_BYTES`: shorter parts stay whole, longer ones are cut. */
export function fitDetail(detail: ErrorDetail): ErrorDetail {
  let bounds = WIDEST
  let fitting = detail
  while (byteLength(JSON.stringify(fitting)) > MAX_DETAIL_BYTES) {
    bounds = halved(bounds)
    fitting = { ...shrink(detail, bounds, bounds.causes), cut: true }
  }
  return fitting
}

/**
 * Reads a detail from elsewhere, such as a worker in another language. Keeps what has the right shape, within the
 * bounds. Returns `undefined` if nothing is left.
 */
export function readDetail(given: unknown): ErrorDetail | undefined {
  const detail = asDetail(given as JsonValue, WIDEST.causes)
  return detail === undefined ? undefined : fitDetail(shrink(detail, WIDEST, WIDEST.causes))
}

/** The first frame of the task's code, or else the first frame. */
export function thrownAt({ stack = [] }: ErrorDetail): string | undefined {
  return (stack.find(({ own }) => own === true) ?? stack[0])?.line
}

function halved(bounds: DetailBounds): DetailBounds {
  const half = (most: number, least: number) => Math.max(least, Math.floor(most / 2))
  return {
    text: half(bounds.text, 64),
    frames: half(bounds.frames, 1),
    items: half(bounds.items, 1),
    depth: half(bounds.depth, 1),
    causes: half(bounds.causes, 1),
    errors: half(bounds.errors, 1),
  }
}

function shrink(detail: ErrorDetail, bounds: DetailBounds, causesLeft: number): ErrorDetail {
  const { stack, properties, value, cause, errors = [] } = detail
  const below = causesLeft - 1
  return {
    class: detailText(detail.class, Math.min(200, bounds.text)),
    message: detailText(detail.message, bounds.text),
    ...(stack !== undefined && { stack: shrinkStack(stack, bounds) }),
    ...(properties !== undefined && { properties: shrinkValue(properties, bounds, bounds.depth) as JsonMap }),
    ...(value !== undefined && { value: shrinkValue(value, bounds, bounds.depth) }),
    ...(cause !== undefined && below >= 0 && { cause: shrink(cause, bounds, below) }),
    ...(errors.length > 0 &&
      below >= 0 && { errors: errors.slice(0, bounds.errors).map((each) => shrink(each, bounds, below)) }),
    ...(detail.cut && { cut: true }),
  }
}

/** Keeps the task's own frames first, because the others only lead to them. */
function shrinkStack(stack: readonly StackFrame[], bounds: DetailBounds): StackFrame[] {
  const own = stack.filter((frame) => frame.own === true).slice(0, bounds.frames)
  let others = bounds.frames - own.length
  return stack
    .filter((frame) => (frame.own === true ? own.includes(frame) : others-- > 0))
    .map(({ line, own }) => ({ line: detailText(line, Math.min(400, bounds.text)), ...(own && { own }) }))
}

function shrinkValue(value: JsonValue, bounds: DetailBounds, depth: number): JsonValue {
  if (typeof value === 'string') return detailText(value, bounds.text)
  if (isList(value)) {
    if (depth === 0) return `[${value.length} items]`
    const { kept, left } = firstOf(value, bounds.items)
    const items = kept.map((item) => shrinkValue(item, bounds, depth - 1))
    return left === 0 ? items : [...items, `… ${left} more`]
  }
  if (isMap(value)) {
    const entries = Object.entries(value)
    if (depth === 0) return `{${entries.length} fields}`
    const { kept, left } = firstOf(entries, bounds.items)
    const fields = kept.map(([name, item]) => [
      detailText(name, Math.min(200, bounds.text)),
      shrinkValue(item, bounds, depth - 1),
    ])
    return Object.fromEntries(left === 0 ? fields : [...fields, ['…', `${left} more`]])
  }
  return value
}

/** Returns the first items of a list. If some are left out, the last place is kept for a note. */
export function firstOf<T>(
  all: readonly T[],
  most: number,
): { readonly kept: readonly T[]; readonly left: number } {
  const kept = all.length > most ? all.slice(0, most - 1) : all
  return { kept, left: all.length - kept.length }
}

function asDetail(given: JsonValue | undefined, causesLeft: number): ErrorDetail | undefined {
  if (!isMap(given)) return undefined
  const { class: name, message, stack, properties, value, cause, errors, cut } = given
  if (typeof name !== 'string' && typeof message !== 'string') return undefined
  const below = causesLeft > 0 ? asDetail(cause, causesLeft - 1) : undefined
  const several = isList(errors) && causesLeft > 0 ? errors.slice(0, WIDEST.errors) : []
  const read = several.flatMap((each) => asDetail(each, causesLeft - 1) ?? [])
  return {
    class: typeof name === 'string' ? name : 'Error',
    message: typeof message === 'string' ? message : '',
    ...(isList(stack) && { stack: stack.slice(0, 1000).flatMap(asFrame) }),
    ...(isMap(properties) && { properties }),
    ...(value !== undefined && { value }),
    ...(below !== undefined && { cause: below }),
    ...(read.length > 0 && { errors: read }),
    ...(cut === true && { cut }),
  }
}

function asFrame(given: JsonValue): StackFrame[] {
  if (typeof given === 'string') return [{ line: given }]
  if (!isMap(given) || typeof given.line !== 'string') return []
  return [{ line: given.line, ...(given.own === true && { own: true }) }]
}
