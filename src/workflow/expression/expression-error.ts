import { SluiceError } from '../../errors.ts'

/** A place in the text of an expression. Lines and columns count from 1, the offset from 0. */
export interface Position {
  readonly offset: number
  readonly line: number
  readonly column: number
}

/** Longer expressions are cut in messages. */
const SHOWN = 120

/**
 * An expression that cannot be read, or cannot be worked out with the values it was given.
 *
 * Its message has the place in the definition (when known), the reason, and the place in the expression.
 * It holds names, never values: those may be secret.
 */
export class ExpressionError extends SluiceError {
  readonly source: string
  readonly position: Position
  readonly reason: string

  /** @param at The path of the expression in the definition, for example `steps.align.with.chunk`. */
  constructor(reason: string, source: string, offset: number, at?: string) {
    const position = locate(source, offset)
    const column = `column ${position.column}`
    const place = source.includes('\n') ? `line ${position.line}, ${column}` : column
    const prefix = at === undefined || at === '' ? '' : `${at}: `
    super('EXPRESSION_FAILED', `${prefix}${reason} (${place} of ${showExpression(source)})`, {
      details: { source: cut(source), ...position, ...(prefix === '' ? {} : { at }) },
    })
    this.source = source
    this.position = position
    this.reason = reason
  }
}

function locate(source: string, offset: number): Position {
  const before = source.slice(0, offset)
  const lineStart = before.lastIndexOf('\n') + 1
  return { offset, line: before.split('\n').length, column: offset - lineStart + 1 }
}

/** An expression, or a text with some, as messages show it: in one line, and never long. */
export function showExpression(source: string): string {
  const text = cut(source).replace(/\s+/g, ' ').trim()
  return text.includes('${{') ? text : `\${{ ${text} }}`
}

function cut(source: string): string {
  return source.length > SHOWN ? `${source.slice(0, SHOWN)}…` : source
}
