import { isList, isMap, type JsonMap, type JsonValue } from '../../model/json.ts'
import { suggest } from '../../model/suggest.ts'
import { type Allowance, Fault, kindOf } from './bounds.ts'
import { ExpressionError } from './expression-error.ts'
import { checkLength } from './functions.ts'
import type { Node, Operator } from './syntax-tree.ts'

/** Names that `map` and its like have given to elements, the innermost first. */
interface Variables {
  readonly name: string
  readonly value: JsonValue
  readonly outer: Variables | undefined
}

/** Deeper values are not compared. Those of jobs are bounded further up; expressions can nest them more. */
const MAX_COMPARED_DEPTH = 1100

/** One evaluation of an expression. It reads own properties only, and makes nothing but JSON. */
export class Evaluation {
  readonly #source: string
  readonly #at: string | undefined
  readonly #scope: JsonMap
  readonly #allowance: Allowance

  constructor(source: string, at: string | undefined, scope: object, allowance: Allowance) {
    this.#source = source
    this.#at = at
    this.#scope = scope as JsonMap
    this.#allowance = allowance
  }

  /** @throws {ExpressionError} and nothing else. */
  run(node: Node, variables?: Variables): JsonValue {
    try {
      this.#allowance.spend(1)
      return this.#value(node, variables)
    } catch (error) {
      throw error instanceof Fault ? this.fault(error.message, node.from) : error
    }
  }

  fault(reason: string, offset: number): ExpressionError {
    return new ExpressionError(reason, this.#source, offset, this.#at)
  }

  #value(node: Node, variables: Variables | undefined): JsonValue {
    switch (node.kind) {
      case 'literal':
        return node.value
      case 'name':
        return this.#name(node.name)
      case 'variable':
        return find(variables, node.name)
      case 'member':
        return this.#member(node, this.run(node.of, variables))
      case 'has': {
        const value = this.run(node.of, variables)
        return isMap(value) && Object.hasOwn(value, node.key)
      }
      case 'index':
        return this.#index(node, this.run(node.of, variables), this.run(node.key, variables))
      case 'list':
        return node.items.map((item) => this.run(item, variables))
      case 'map':
        return this.#map(node, variables)
      case 'not':
        return !this.#truth(node.of, variables, '!')
      case 'negate':
        return -this.#number(node.of, this.run(node.of, variables), '-')
      case 'and':
        return this.#truth(node.left, variables, '&&') && this.#truth(node.right, variables, '&&')
      case 'or':
        return this.#truth(node.left, variables, '||') || this.#truth(node.right, variables, '||')
      case 'choice':
        return this.run(this.#truth(node.condition, variables, '?') ? node.yes : node.no, variables)
      case 'binary':
        return this.#binary(node, this.run(node.left, variables), this.run(node.right, variables))
      case 'call': {
        const args = node.args.map((arg) => this.run(arg, variables))
        return node.run.run(args, this.#allowance)
      }
      case 'each':
        return this.#each(node, variables)
      default:
        return node satisfies never
    }
  }

  #name(name: string): JsonValue {
    if (Object.hasOwn(this.#scope, name)) return this.#scope[name] ?? null
    throw new Fault(`${name}: ${absent('name', name, Object.keys(this.#scope))}`)
  }

  #member(node: Node & { kind: 'member' }, value: JsonValue): JsonValue {
    if (isMap(value)) return this.#property(node, value, node.key, node.keyAt)
    const hint = node.key === 'length' && value !== null ? `; size(${this.#text(node.of)}) counts` : ''
    throw this.fault(
      `${this.#text(node.of)} is ${kindOf(value)} and has no property ${node.key}${hint}`,
      node.keyAt,
    )
  }

  /** What is missing is null, except that steps have to be there. */
  #property(
    node: Node & { kind: 'member' | 'index' },
    value: JsonMap,
    key: string,
    offset: number,
  ): JsonValue {
    if (Object.hasOwn(value, key)) return value[key] ?? null
    if (node.of.kind !== 'name' || node.of.name !== 'steps') return null
    throw this.fault(`steps.${key}: ${absent('step', key, Object.keys(value))}`, offset)
  }

  #index(node: Node & { kind: 'index' }, value: JsonValue, key: JsonValue): JsonValue {
    if (isMap(value) && typeof key === 'string') return this.#property(node, value, key, node.key.from)
    if (isList(value) && typeof key === 'number') {
      if (Number.isInteger(key)) return value[key] ?? null
      throw this.fault('the place in a list must be a whole number', node.key.from)
    }
    const what = this.#text(node.of)
    if (isMap(value))
      throw this.fault(`${what} is a map: its keys are texts, not ${kindOf(key)}`, node.key.from)
    if (isList(value))
      throw this.fault(`${what} is a list: places are numbers, not ${kindOf(key)}`, node.key.from)
    throw this.fault(`${what} is ${kindOf(value)} and has nothing in brackets`, node.key.from)
  }

  #map(node: Node & { kind: 'map' }, variables: Variables | undefined): JsonValue {
    const map: Record<string, JsonValue> = {}
    for (const [keyNode, valueNode] of node.entries) {
      const key = this.run(keyNode, variables)
      if (typeof key !== 'string') throw this.fault(`a key must be a text, not ${kindOf(key)}`, keyNode.from)
      if (key === '__proto__') throw this.fault('the key __proto__ is not allowed', keyNode.from)
      if (Object.hasOwn(map, key)) throw this.fault(`the key ${key} is there twice`, keyNode.from)
      map[key] = this.run(valueNode, variables)
    }
    return map
  }

  #each(node: Node & { kind: 'each' }, outer: Variables | undefined): JsonValue {
    const found: JsonValue[] = []
    const { macro, condition, result, variable: name } = node
    let matches = 0
    const elements = this.#elements(node, this.run(node.over, outer))
    for (const value of elements) {
      this.#allowance.spend(1)
      const variables = { name, value, outer }
      const holds = condition === undefined || this.#truth(condition, variables, `.${macro}()`)
      if (holds) matches += 1
      if (macro === 'all' && !holds) return false
      if (macro === 'exists' && holds) return true
      if (macro === 'filter' && holds) found.push(value)
      if (result !== undefined && holds) found.push(this.run(result, variables))
    }
    if (macro === 'all') return true
    if (macro === 'exists') return false
    return macro === 'exists_one' ? matches === 1 : found
  }

  /** Of a map its keys, sorted: PostgreSQL does not keep their order. */
  #elements(node: Node & { kind: 'each' }, value: JsonValue): readonly JsonValue[] {
    if (isList(value)) return value
    if (!isMap(value)) {
      throw new Fault(`.${node.macro}() takes a list or a map; ${this.#text(node.over)} is ${kindOf(value)}`)
    }
    const keys = Object.keys(value)
    // Sorting a key takes about as long as eight steps.
    this.#allowance.spend(keys.length * 8)
    return keys.sort()
  }

  #binary(node: Node & { kind: 'binary' }, left: JsonValue, right: JsonValue): JsonValue {
    const { operator } = node
    switch (operator) {
      case '==':
        return this.#equal(left, right, 0)
      case '!=':
        return !this.#equal(left, right, 0)
      case 'in':
        return this.#isIn(left, right)
      case '<':
      case '<=':
      case '>':
      case '>=':
        return this.#compare(operator, left, right)
      case '+':
        if (typeof left !== 'number' || typeof right !== 'number') return this.#concatenate(left, right)
    }
    const a = this.#number(node.left, left, operator)
    const b = this.#number(node.right, right, operator)
    if (b === 0 && (operator === '/' || operator === '%'))
      throw this.fault('division by zero', node.right.from)
    const result = calculate(operator, a, b)
    if (Number.isFinite(result)) return result
    throw new Fault('the result is larger than any number of JSON')
  }

  #concatenate(left: JsonValue, right: JsonValue): JsonValue {
    if (typeof left === 'string' && typeof right === 'string') {
      checkLength(left.length + right.length)
      this.#allowance.spendText(left.length + right.length)
      return left + right
    }
    if (isList(left) && isList(right)) {
      this.#allowance.spend(left.length + right.length)
      return [...left, ...right]
    }
    const hint = [left, right].some((value) => typeof value === 'string')
      ? '; string(x) makes a text of x'
      : ''
    throw new Fault(
      `+ takes two numbers, two texts or two lists, not ${kindOf(left)} and ${kindOf(right)}${hint}`,
    )
  }

  #compare(operator: Operator, left: JsonValue, right: JsonValue): boolean {
    if (typeof left === 'string' && typeof right === 'string') {
      this.#allowance.spendText(Math.min(left.length, right.length))
    } else if (typeof left !== 'number' || typeof right !== 'number') {
      throw new Fault(`${operator} takes two numbers or two texts, not ${kindOf(left)} and ${kindOf(right)}`)
    }
    if (operator === '<') return left < right
    if (operator === '<=') return left <= right
    return operator === '>' ? left > right : left >= right
  }

  #isIn(value: JsonValue, within: JsonValue): boolean {
    if (isList(within)) return within.some((item) => this.#equal(value, item, 0))
    if (isMap(within) && typeof value === 'string') return Object.hasOwn(within, value)
    const hint = typeof within === 'string' ? '; write text.contains(part)' : ''
    throw new Fault(`in takes a list, or a text and a map, not ${kindOf(value)} and ${kindOf(within)}${hint}`)
  }

  #equal(left: JsonValue, right: JsonValue, depth: number): boolean {
    this.#allowance.spend(1)
    if (typeof left === 'string' && typeof right === 'string') {
      if (left.length !== right.length) return false
      this.#allowance.spendText(left.length)
      return left === right
    }
    if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null)
      return left === right
    if (depth > MAX_COMPARED_DEPTH) throw new Fault('the values are nested too deep to compare')
    if (isList(left) || isList(right)) {
      if (!isList(left) || !isList(right) || left.length !== right.length) return false
      return left.every((item, index) => this.#equal(item, right[index]!, depth + 1))
    }
    const keys = Object.keys(left)
    this.#allowance.spend(keys.length)
    if (keys.length !== Object.keys(right).length) return false
    return keys.every((key) => Object.hasOwn(right, key) && this.#equal(left[key]!, right[key]!, depth + 1))
  }

  #truth(node: Node, variables: Variables | undefined, operator: string): boolean {
    const value = this.run(node, variables)
    if (typeof value === 'boolean') return value
    throw this.fault(`${operator} takes true or false; ${this.#text(node)} is ${kindOf(value)}`, node.from)
  }

  #number(node: Node, value: JsonValue, operator: string): number {
    if (typeof value === 'number') return value
    throw this.fault(`${operator} takes numbers; ${this.#text(node)} is ${kindOf(value)}`, node.from)
  }

  #text(node: Node): string {
    const text = this.#source.slice(node.from, node.to)
    return text.length > 60 ? `${text.slice(0, 60)}…` : text
  }
}

function find(variables: Variables | undefined, name: string): JsonValue {
  let at = variables
  while (at !== undefined && at.name !== name) at = at.outer
  return at?.value ?? null
}

function calculate(operator: Operator, a: number, b: number): number {
  switch (operator) {
    case '+':
      return a + b
    case '-':
      return a - b
    case '*':
      return a * b
    case '/':
      return a / b
    default:
      return a % b
  }
}

/** As many names as fit in a line of a log. */
const NAMED = 20

function absent(what: string, name: string, known: readonly string[]): string {
  if (known.length === 0) return `no such ${what}; there are none`
  const near = suggest(name, known.slice(0, 1000))
  const hint = near === undefined ? '' : `, perhaps ${near}`
  const more = known.length > NAMED ? ` and ${known.length - NAMED} more` : ''
  return `no such ${what}${hint}; there are: ${known.slice(0, NAMED).join(', ')}${more}`
}
