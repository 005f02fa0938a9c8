import { type ASTNode, Environment, ParseError } from '@marcbachmann/cel-js'
import { isStorable, type JsonValue } from '../../model/json.ts'
import { suggest } from '../../model/suggest.ts'
import { ExpressionError } from './expression-error.ts'
import { FUNCTIONS, METHODS, type Operation } from './functions.ts'
import type { Macro, Node } from './syntax-tree.ts'

/** Longer expressions are refused. */
export const MAX_EXPRESSION_LENGTH = 4096

/** Deeper expressions are refused. In a chain of operators each one counts. */
export const MAX_EXPRESSION_DEPTH = 100

const MACROS: ReadonlySet<string> = new Set<Macro>(['map', 'filter', 'all', 'exists', 'exists_one'])

const MAX_ARGUMENTS = 8

/** Only the grammar of the library is used; what expressions mean is in expression-run.ts. */
const grammar = new Environment({
  limits: {
    maxAstNodes: MAX_EXPRESSION_LENGTH,
    maxDepth: MAX_EXPRESSION_DEPTH,
    maxListElements: MAX_EXPRESSION_LENGTH,
    maxMapEntries: MAX_EXPRESSION_LENGTH,
    maxCallArguments: MAX_ARGUMENTS,
  },
})

/**
 * Reads the text of an expression.
 *
 * Refuses what could never work whatever the values are: wrong syntax, unknown functions, numbers that
 * JSON cannot hold, texts that PostgreSQL cannot store.
 *
 * @throws {ExpressionError}
 */
export function parseTree(source: string, at: string | undefined): Node {
  const refuse = (reason: string, offset: number) => new ExpressionError(reason, source, offset, at)
  if (source.length > MAX_EXPRESSION_LENGTH) {
    throw refuse(`the expression has ${source.length} characters, more than ${MAX_EXPRESSION_LENGTH}`, 0)
  }
  if (source.trim() === '') throw refuse('the expression is empty', 0)
  let ast: ASTNode
  try {
    ast = grammar.parse(source).ast
  } catch (error) {
    // The library bounds most of its recursion, but not that of operators before a value: `!!!!…`.
    if (error instanceof RangeError) throw refuse(TOO_DEEP, 0)
    if (!(error instanceof ParseError)) throw error
    throw refuse(explain(error, source), error.range?.start ?? 0)
  }
  return new Builder(refuse).build(ast, NOTHING, 0)
}

const TOO_DEEP = `the expression is nested deeper than ${MAX_EXPRESSION_DEPTH} levels`

function explain(error: ParseError, source: string): string {
  if (error.code === 'limit_exceeded') {
    return error.summary.includes('maxDepth')
      ? TOO_DEEP
      : `a function takes at most ${MAX_ARGUMENTS} arguments`
  }
  if (error.code === 'invalid_macro_argument')
    return 'the first argument must be a name, as in .map(x, x.name)'
  const reason = error.summary.replace(/^[A-Z]/, (letter) => letter.toLowerCase())
  const start = error.range?.start ?? 0
  if (source[start] === '=' && source[start + 1] !== '=') return `${reason}; equality is written ==`
  return reason.replace(/\bEOF\b/, 'the end')
}

type Bound = ReadonlySet<string>
const NOTHING: Bound = new Set()

class Builder {
  readonly #refuse: (reason: string, offset: number) => ExpressionError

  constructor(refuse: (reason: string, offset: number) => ExpressionError) {
    this.#refuse = refuse
  }

  build(ast: ASTNode, bound: Bound, depth: number): Node {
    if (depth > MAX_EXPRESSION_DEPTH) throw this.#refuse(TOO_DEEP, ast.start)
    const span = { from: ast.start, to: ast.end }
    const inside = (child: ASTNode, names = bound) => this.build(child, names, depth + 1)
    switch (ast.op) {
      case 'value':
        return { kind: 'literal', value: this.#literal(ast.args, ast.start), ...span }
      case 'id':
        return { kind: bound.has(ast.args) ? 'variable' : 'name', name: ast.args, ...span }
      case '.':
        return { kind: 'member', of: inside(ast.args[0]), key: ast.args[1], keyAt: ast.pos, ...span }
      case '[]':
        return { kind: 'index', of: inside(ast.args[0]), key: inside(ast.args[1]), ...span }
      case 'list':
        return { kind: 'list', items: ast.args.map((item) => inside(item)), ...span }
      case 'map':
        return {
          kind: 'map',
          entries: ast.args.map(([key, value]) => this.#entry(key, value, inside)),
          ...span,
        }
      case '!_':
        return { kind: 'not', of: inside(ast.args), ...span }
      case '-_':
        return { kind: 'negate', of: inside(ast.args), ...span }
      case '&&':
        return { kind: 'and', left: inside(ast.args[0]), right: inside(ast.args[1]), ...span }
      case '||':
        return { kind: 'or', left: inside(ast.args[0]), right: inside(ast.args[1]), ...span }
      case '?:': {
        const [condition, yes, no] = ast.args
        return { kind: 'choice', condition: inside(condition), yes: inside(yes), no: inside(no), ...span }
      }
      case 'call':
        return this.#call(ast.args[0], ast.args[1], inside, span)
      case 'rcall':
        return this.#method(ast.args, bound, inside, span)
      case '.?':
      case '[?]':
        throw this.#refuse('optional access is not part of the language: what is missing is null', ast.pos)
      default: {
        const [left, right] = ast.args
        return { kind: 'binary', operator: ast.op, left: inside(left), right: inside(right), ...span }
      }
    }
  }

  #literal(value: unknown, offset: number): JsonValue {
    if (value === null || typeof value === 'boolean' || typeof value === 'number') return value
    if (typeof value === 'string') {
      if (isStorable(value)) return value
      throw this.#refuse(
        'the text has a NUL character or an unpaired surrogate, which cannot be stored',
        offset,
      )
    }
    if (typeof value === 'bigint') {
      if (BigInt(Number(value)) === value) return Number(value)
      throw this.#refuse(`${value} is not a number that JSON holds exactly; use a text`, offset)
    }
    throw this.#refuse('JSON has neither bytes nor unsigned numbers: leave out the b or u', offset)
  }

  /** In CEL a bare key is the value of a name, elsewhere the key itself: so neither is taken. */
  #entry(key: ASTNode, value: ASTNode, inside: (child: ASTNode) => Node): readonly [Node, Node] {
    if (key.op === 'id') {
      throw this.#refuse(
        `write the key in quotes, "${key.args}", or string(${key.args}) for the value of ${key.args}`,
        key.start,
      )
    }
    return [inside(key), inside(value)]
  }

  #call(name: string, args: readonly ASTNode[], inside: (child: ASTNode) => Node, span: TextSpan): Node {
    if (name === 'has') return this.#has(args, inside, span)
    const operation = FUNCTIONS.get(name)
    if (operation === undefined)
      throw this.#unknown('function', name, [...FUNCTIONS.keys(), 'has'], span.from)
    this.#count(name, operation, args.length, span.from)
    return { kind: 'call', name, run: operation, args: args.map((arg) => inside(arg)), ...span }
  }

  #has(args: readonly ASTNode[], inside: (child: ASTNode) => Node, span: TextSpan): Node {
    const [arg] = args
    if (args.length !== 1 || arg?.op !== '.') {
      throw this.#refuse('has() takes one property, as in has(input.file)', span.from)
    }
    return { kind: 'has', of: inside(arg.args[0]), key: arg.args[1], ...span }
  }

  #method(
    [name, receiver, args]: readonly [string, ASTNode, readonly ASTNode[]],
    bound: Bound,
    inside: (child: ASTNode, names?: Bound) => Node,
    span: TextSpan,
  ): Node {
    if (isMacro(name)) return this.#each(name, receiver, args, bound, inside, span)
    const operation = METHODS.get(name)
    if (operation === undefined)
      throw this.#unknown('method', name, [...METHODS.keys(), ...MACROS], receiver.end)
    this.#count(`.${name}`, operation, args.length, receiver.end)
    return {
      kind: 'call',
      name: `.${name}`,
      run: operation,
      args: [receiver, ...args].map((arg) => inside(arg)),
      ...span,
    }
  }

  #each(
    macro: Macro,
    receiver: ASTNode,
    args: readonly ASTNode[],
    bound: Bound,
    inside: (child: ASTNode, names?: Bound) => Node,
    span: TextSpan,
  ): Node {
    const [variable, second, third] = args
    const most = macro === 'map' ? 3 : 2
    if (variable?.op !== 'id' || second === undefined || args.length > most) {
      throw this.#refuse(
        `.${macro}() takes a name and an expression, as in .${macro}(x, x.name)`,
        receiver.end,
      )
    }
    const names = new Set([...bound, variable.args])
    const [condition, result] =
      macro !== 'map' ? [second] : third === undefined ? [undefined, second] : [second, third]
    return {
      kind: 'each',
      macro,
      over: inside(receiver),
      variable: variable.args,
      condition: condition && inside(condition, names),
      result: result && inside(result, names),
      ...span,
    }
  }

  #unknown(what: string, name: string, known: readonly string[], offset: number): ExpressionError {
    const near = suggest(name, known)
    const hint = near === undefined ? '' : `, perhaps ${near}`
    return this.#refuse(`there is no ${what} ${name}${hint}; there are: ${known.join(', ')}`, offset)
  }

  #count(name: string, { least, most }: Operation, given: number, offset: number): void {
    if (given >= least && given <= most) return
    const wanted = least === most ? `${least}` : `${least} to ${most}`
    throw this.#refuse(`${name}() takes ${wanted} arguments, not ${given}`, offset)
  }
}

interface TextSpan {
  readonly from: number
  readonly to: number
}

function isMacro(name: string): name is Macro {
  return MACROS.has(name)
}
