import { SluiceError } from '../../errors.ts'
import { show } from '../../model/argument.ts'
import type { JsonValue } from '../../model/json.ts'
import type { Jsonified } from '../../model/jsonified.ts'
import type { Template } from '../graph.ts'

/** Under this key a reference says what it stands for. */
const INSIDE: unique symbol = Symbol('sluice.reference')

/** Stands for a value of type `T` that a run will have. */
export interface Reference<out T> {
  /** The type only: there is no value yet. */
  readonly [INSIDE]: T
}

/**
 * A reference whose fields are references too: `parts.result.chunks`.
 *
 * In a text it is written as its expression, so `` `${flow.input.file}.gz` `` is rendered when the step starts.
 */
export type Ref<T> = Reference<T> & Fields<T>

/** What can be read of a `T`. Nothing of what may be null: an expression has to ask first. */
type Fields<T> = 0 extends T & 1
  ? // biome-ignore lint/suspicious/noExplicitAny: whoever has an `any` gets one
    { readonly [field: string]: Ref<any> }
  : T extends Scalar
    ? unknown
    : T extends readonly (infer Item)[]
      ? { readonly [index: number]: Ref<Stored<Item>> }
      : T extends object
        ? { readonly [K in keyof T as K & string]-?: Ref<Stored<T[K]>> }
        : unknown

/** What functions give that return nothing. */
// biome-ignore lint/suspicious/noConfusingVoidType: they have this type
export type Nothing = undefined | void

type Scalar = null | Nothing | string | number | boolean | bigint | symbol | ((...args: never) => unknown)

/** What is left of a value once it was stored as JSON. What is absent reads as null. */
export type Stored<T> = T extends Nothing ? null : T extends { toJSON(...args: never): infer Json } ? Json : T

/** How a value of type `T` may be written in a definition: with references anywhere in it. */
export type Given<T> = Reference<T> | Literal<T>

type Literal<T> = unknown extends T
  ? unknown
  : T extends Scalar
    ? T
    : T extends object
      ? { readonly [K in keyof T]: Given<T[K]> }
      : T

/** The value that something written in a definition gives in the end. */
export type Rendered<G> = 0 extends G & 1
  ? G
  : G extends Reference<infer T>
    ? T
    : G extends Scalar
      ? Stored<G>
      : G extends { toJSON(...args: never): unknown }
        ? Jsonified<G>
        : G extends object
          ? { -readonly [K in keyof G]: Rendered<G[K]> }
          : G

/** A list in a definition. */
export type Items<Item> = Reference<readonly Item[]> | readonly Item[]

/** What a reference reads, so that it can be refused where that means something else or nothing. */
export type Origin =
  | { readonly kind: 'step'; readonly body: object; readonly name: string }
  | { readonly kind: 'input'; readonly workflow: object }
  | { readonly kind: 'item'; readonly fanOut: object; readonly name: string }

interface Inside {
  /** The expression, in the language of definitions. */
  readonly source: string
  /** The same as part of another expression. */
  readonly operand: string
  readonly origins: readonly Origin[]
}

/** A reference for an expression. */
export function reference<T>(source: string, ...origins: readonly Origin[]): Ref<T> {
  return makeReference({ source, operand: source, origins })
}

function makeReference<T>(inside: Inside): Ref<T> {
  const { source, operand, origins } = inside
  const fields = new Map<string, unknown>()
  const proxy = new Proxy({} as object, {
    get(_, key) {
      if (key === INSIDE) return inside
      if (key === Symbol.toPrimitive) return (hint: string) => asText(source, hint)
      if (typeof key === 'symbol') {
        if (key === Symbol.iterator) throw notYet(source, 'gone through; use each()')
        return undefined
      }
      let field = fields.get(key)
      if (field === undefined) {
        field = reference(`${operand}${accessor(key)}`, ...origins)
        fields.set(key, field)
      }
      return field
    },
    ownKeys: () => {
      throw notYet(source, 'taken apart; name the fields')
    },
    set: () => {
      throw notYet(source, 'changed')
    },
  })
  return proxy as Ref<T>
}

function asText(source: string, hint: string): string {
  if (hint === 'number') throw notYet(source, 'calculated with; use expr')
  return `\${{ ${source} }}`
}

function notYet(source: string, what: string): SluiceError {
  return new SluiceError(
    'INVALID_ARGUMENT',
    `${source} stands for a value that only a run will have, and cannot be ${what}`,
  )
}

/** Words that the grammar keeps for itself. */
const RESERVED = new Set(
  'as break const continue else false for function if import in let loop namespace null package return true var void while'.split(
    ' ',
  ),
)

/** How a field is read in an expression. */
export function accessor(field: string): string {
  if (/^(0|[1-9]\d*)$/.test(field)) return `[${field}]`
  return /^[A-Za-z_]\w*$/.test(field) && !RESERVED.has(field) ? `.${field}` : `[${JSON.stringify(field)}]`
}

function insideOf(value: unknown): Inside | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  return (value as { readonly [INSIDE]?: Inside })[INSIDE]
}

/**
 * An expression over references: `` expr<number>`${flow.input.n} - 1` ``.
 *
 * The text between is in the language of definitions. Plain values are written as literals. The type is the one
 * that is asked for: nothing checks that the expression gives it.
 */
export function expr<T = unknown>(texts: TemplateStringsArray, ...values: readonly unknown[]): Ref<T> {
  const origins: Origin[] = []
  const operands = values.map((value) => toOperand(value, origins))
  const source = texts
    .map((text, place) => `${text}${operands[place] ?? ''}`)
    .join('')
    .trim()
  return makeReference({ source, operand: `(${source})`, origins })
}

/** How a value is written in an expression. What references in it read is added to `origins`. */
function toOperand(value: unknown, origins: Origin[]): string {
  const inside = insideOf(value)
  if (inside !== undefined) {
    origins.push(...inside.origins)
    return inside.operand
  }
  if (Array.isArray(value)) return `[${value.map((item) => toOperand(item, origins)).join(', ')}]`
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return JSON.stringify(value)
  if (typeof value === 'number' && Number.isFinite(value)) return value < 0 ? `(${value})` : `${value}`
  if (typeof value === 'object' && !(value instanceof StepHandle)) {
    const entries = Object.entries(value).map(
      ([key, item]) => `${JSON.stringify(key)}: ${toOperand(item, origins)}`,
    )
    return `{${entries.join(', ')}}`
  }
  const found = value instanceof StepHandle ? `step ${value.name} itself; write .result` : show(value)
  throw new SluiceError('INVALID_ARGUMENT', `an expression holds references and plain values, found ${found}`)
}

export interface Converted {
  readonly template: Template
  readonly origins: readonly Origin[]
}

/** Deeper values are refused where definitions are read, too. */
const MAX_DEPTH = 1000

/**
 * A value of a definition as it stands in a config file: JSON, with expressions in place of references.
 *
 * @param at Names the value in errors.
 * @throws {SluiceError} `INVALID_ARGUMENT` for what JSON cannot say, and for a step where its result must be meant.
 */
export function toTemplate(value: unknown, at: string): Converted {
  const origins: Origin[] = []
  const around = new Set<object>()
  const convert = (part: unknown, path: string): JsonValue => {
    const inside = insideOf(part)
    if (inside !== undefined) {
      origins.push(...inside.origins)
      return `\${{ ${inside.source} }}`
    }
    if (part === undefined || part === null) return null
    if (typeof part === 'string' || typeof part === 'number' || typeof part === 'boolean') return part
    if (typeof part !== 'object') throw misplaced(path, show(part))
    if (part instanceof StepHandle) {
      throw misplaced(path, `step ${part.name} itself; write .result, or another of its fields`)
    }
    if ('toJSON' in part && typeof part.toJSON === 'function') return convert(part.toJSON(), path)
    if (around.has(part) || around.size > MAX_DEPTH) throw misplaced(path, 'a value without an end')
    around.add(part)
    const converted = Array.isArray(part)
      ? part.map((item, index) => convert(item, `${path}[${index}]`))
      : Object.fromEntries(
          Object.entries(part)
            .filter(([, item]) => item !== undefined)
            .map(([key, item]) => [key, convert(item, `${path}.${key}`)]),
        )
    around.delete(part)
    return converted
  }
  return { template: convert(value, at), origins }
}

function misplaced(path: string, what: string): SluiceError {
  return new SluiceError('INVALID_ARGUMENT', `${path}: found ${what}`)
}

export type StepStatus = 'completed' | 'failed' | 'cancelled' | 'skipped'

/** A step whose result does not matter. */
export interface AnyStep {
  readonly name: string
  /** The workflow or group it is in. */
  readonly body: object
}

/** A step of a workflow, for later steps to read and to need. */
export class StepHandle<Result = unknown> implements AnyStep {
  readonly name: string
  /** What it gave. Null unless it completed: that is known where a step needs it and is on the path `success`. */
  readonly result: Ref<Jsonified<Result>>
  readonly status: Ref<StepStatus>
  readonly error: Ref<string | null>
  readonly body: object

  /** @internal */
  constructor(body: object, name: string) {
    const origin = { kind: 'step', body, name } as const
    const source = `steps${accessor(name)}`
    this.body = body
    this.name = name
    this.result = reference(`${source}.result`, origin)
    this.status = reference(`${source}.status`, origin)
    this.error = reference(`${source}.error`, origin)
  }
}

/** A fan-out. Its result is the list of its children's, in the order of the items. */
export class FanOutHandle<Result = unknown> extends StepHandle<Result[]> {
  /** Null for each child that did not complete. */
  readonly results: Ref<Jsonified<Result>[]>

  /** @internal */
  constructor(body: object, name: string) {
    super(body, name)
    this.results = reference(`steps${accessor(name)}.results`, { kind: 'step', body, name })
  }
}
