import { isList, type JsonValue } from '../../model/json.ts'
import { MAX_JSON_BYTES } from '../../model/limits.ts'
import { Allowance, type Effort, Fault, MAX_RESULT_DEPTH, measure, textBytes, toText } from './bounds.ts'
import {
  boundOutput,
  type Expression,
  type Path,
  parseExpression,
  type Scope,
  workOut,
} from './expression.ts'
import { ExpressionError } from './expression-error.ts'

/** A value whose texts may hold expressions, read and checked. */
export type CompiledTemplate = Part & {
  /** Bytes of JSON that it gives whatever its expressions give. */
  readonly bytes: number
}

type Part =
  /** No expression in it. */
  | { readonly kind: 'constant'; readonly value: JsonValue }
  /** A text that is one expression: gives the value as it is. */
  | { readonly kind: 'expression'; readonly expression: Expression }
  /** A text around expressions, the first of them beside it: gives a text. */
  | { readonly kind: 'text'; readonly pieces: readonly (string | Expression)[]; readonly first: Expression }
  | { readonly kind: 'list'; readonly items: readonly Part[] }
  | { readonly kind: 'map'; readonly entries: readonly (readonly [string, Part])[] }

/**
 * Reads a value of a definition, with `${{ expression }}` anywhere in its texts.
 *
 * Keys are not rendered: one with an expression is refused. To write `${{` itself, quote it in an expression:
 * `${{ "${{" }}`.
 *
 * @param at The path of the value in its definition, for messages.
 * @throws {ExpressionError} for the first expression that cannot be read.
 */
export function parseTemplate(value: JsonValue, at: string): CompiledTemplate {
  const root = parse(value, at, 0)
  try {
    return { ...root, bytes: fixedBytes(root) }
  } catch (error) {
    throw error instanceof Fault ? new ExpressionError(error.message, '', 0, at) : error
  }
}

/**
 * The value of a template in a scope.
 *
 * A text that is one expression, blanks around it aside, gives its value with its type. In a longer text,
 * texts stand as they are and other values as JSON; null is refused there, since it nearly always means
 * that something is missing. All expressions of a template share one allowance of steps and of output, to
 * which the rest of the template counts.
 *
 * @param effort What it takes is added here, also when it fails.
 * @throws {ExpressionError} with the path in the definition and the place in the expression.
 */
export function renderTemplate(template: CompiledTemplate, scope: Scope, effort?: Effort): JsonValue {
  const allowance = new Allowance(template.bytes)
  try {
    return render(template, scope, allowance)
  } finally {
    if (effort !== undefined) allowance.addTo(effort)
  }
}

/** What the expressions of a template read, each path once. */
export function templateReads(template: CompiledTemplate): readonly Path[] {
  const found = new Map<string, Path>()
  for (const { reads } of expressionsOf(template)) {
    for (const path of reads) found.set(JSON.stringify(path), path)
  }
  return [...found.values()]
}

function parse(value: JsonValue, at: string, depth: number): Part {
  if (typeof value === 'string') return parseText(value, at)
  if (typeof value !== 'object' || value === null) return { kind: 'constant', value }
  if (depth >= MAX_RESULT_DEPTH) {
    throw new ExpressionError(`nested deeper than ${MAX_RESULT_DEPTH} levels`, '', 0, at)
  }
  if (isList(value)) {
    const items = value.map((item, index) => parse(item, `${at}[${index}]`, depth + 1))
    return items.every(isConstant) ? { kind: 'constant', value } : { kind: 'list', items }
  }
  const entries = Object.entries(value).map(([key, inner]) => {
    if (key === '__proto__') throw new ExpressionError('the key __proto__ is not allowed', key, 0, at)
    const opening = key.indexOf('${{')
    if (opening >= 0)
      throw new ExpressionError('keys cannot hold expressions, only values can', key, opening, at)
    return [key, parse(inner, at === '' ? key : `${at}.${key}`, depth + 1)] as const
  })
  return entries.every(([, inner]) => isConstant(inner))
    ? { kind: 'constant', value }
    : { kind: 'map', entries }
}

function isConstant(part: Part): boolean {
  return part.kind === 'constant'
}

function parseText(text: string, at: string): Part {
  const pieces: (string | Expression)[] = []
  let done = 0
  for (let opening = text.indexOf('${{'); opening >= 0; opening = text.indexOf('${{', done)) {
    const closing = findClosing(text, opening + 3)
    if (closing === undefined) throw new ExpressionError('no }} closes this ${{', text, opening, at)
    if (opening > done) pieces.push(text.slice(done, opening))
    pieces.push(parseExpression(text.slice(opening + 3, closing).trim(), at))
    done = closing + 2
  }
  if (done < text.length) pieces.push(text.slice(done))
  const solid = pieces.filter((piece) => typeof piece !== 'string' || piece.trim() !== '')
  const [only] = solid
  if (solid.length === 1 && typeof only === 'object') return { kind: 'expression', expression: only }
  const first = pieces.find((piece) => typeof piece === 'object')
  return first === undefined ? { kind: 'constant', value: text } : { kind: 'text', pieces, first }
}

/** The `}}` that ends an expression: not one in a quoted text, nor one that closes maps. */
function findClosing(text: string, from: number): number | undefined {
  let depth = 0
  let inComment = false
  for (let i = from; i < text.length; i++) {
    const char = text[i]
    if (char === '\n') inComment = false
    else if (inComment) {
      if (text.startsWith('}}', i)) return i
    } else if (text.startsWith('//', i)) inComment = true
    else if (char === '"' || char === "'") {
      const end = findQuote(text, i)
      if (end === undefined) return undefined
      i = end
    } else if (char === '{') depth += 1
    else if (char === '}') {
      if (depth > 0) depth -= 1
      else if (text[i + 1] === '}') return i
    }
  }
  return undefined
}

/** The last character of the quoted text that starts at `from`. */
function findQuote(text: string, from: number): number | undefined {
  const quote = text[from]!
  const closing = text.startsWith(quote.repeat(3), from) ? quote.repeat(3) : quote
  for (let i = from + closing.length; i < text.length; i++) {
    if (text[i] === '\\') i += 1
    else if (text.startsWith(closing, i)) return i + closing.length - 1
  }
  return undefined
}

/** Texts around expressions are charged whole when they are rendered. */
function fixedBytes(part: Part): number {
  switch (part.kind) {
    case 'constant':
      return measure(part.value, MAX_JSON_BYTES, 0)
    case 'expression':
    case 'text':
      return 0
    case 'list':
      return part.items.reduce((sum, item) => sum + fixedBytes(item), 1 + part.items.length)
    case 'map':
      return part.entries.reduce(
        (sum, [key, inner]) => sum + textBytes(key) + 1 + fixedBytes(inner),
        1 + part.entries.length,
      )
    default:
      return part satisfies never
  }
}

function render(part: Part, scope: Scope, allowance: Allowance): JsonValue {
  switch (part.kind) {
    case 'constant':
      return part.value
    case 'expression':
      return boundOutput(part.expression, workOut(part.expression, scope, allowance), allowance)
    case 'text': {
      const pieces = part.pieces.map((piece) => renderPiece(piece, scope, allowance))
      return boundOutput(part.first, pieces.join(''), allowance)
    }
    case 'list':
      return part.items.map((item) => render(item, scope, allowance))
    case 'map':
      return Object.fromEntries(part.entries.map(([key, inner]) => [key, render(inner, scope, allowance)]))
    default:
      return part satisfies never
  }
}

function renderPiece(piece: string | Expression, scope: Scope, allowance: Allowance): string {
  if (typeof piece === 'string') return piece
  const value = workOut(piece, scope, allowance)
  const fail = (reason: string) => new ExpressionError(reason, piece.source, 0, piece.at)
  if (value === null) {
    throw fail('null cannot stand inside a text; say what to put there, as in: x == null ? "none" : x')
  }
  try {
    const text = toText(value, allowance)
    allowance.spendText(text.length)
    return text
  } catch (error) {
    throw error instanceof Fault ? fail(error.message) : error
  }
}

function* expressionsOf(part: Part): Generator<Expression> {
  switch (part.kind) {
    case 'constant':
      return
    case 'expression':
      yield part.expression
      return
    case 'text':
      for (const piece of part.pieces) if (typeof piece === 'object') yield piece
      return
    case 'list':
      for (const item of part.items) yield* expressionsOf(item)
      return
    case 'map':
      for (const [, inner] of part.entries) yield* expressionsOf(inner)
      return
    default:
      part satisfies never
  }
}
