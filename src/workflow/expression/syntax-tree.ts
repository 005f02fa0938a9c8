import type { JsonValue } from '../../model/json.ts'
import type { Operation } from './functions.ts'

/** What an expression does, free of the library that read it. `from` and `to` are its place in the text. */
export type Node = { readonly from: number; readonly to: number } & (
  | { readonly kind: 'literal'; readonly value: JsonValue }
  /** A name of the scope. */
  | { readonly kind: 'name'; readonly name: string }
  /** A name that `map` or `filter` around it has given to an element. */
  | { readonly kind: 'variable'; readonly name: string }
  | { readonly kind: 'member'; readonly of: Node; readonly key: string; readonly keyAt: number }
  | { readonly kind: 'has'; readonly of: Node; readonly key: string }
  | { readonly kind: 'index'; readonly of: Node; readonly key: Node }
  | { readonly kind: 'list'; readonly items: readonly Node[] }
  | { readonly kind: 'map'; readonly entries: readonly (readonly [Node, Node])[] }
  | { readonly kind: 'not' | 'negate'; readonly of: Node }
  | { readonly kind: 'and' | 'or'; readonly left: Node; readonly right: Node }
  | { readonly kind: 'binary'; readonly operator: Operator; readonly left: Node; readonly right: Node }
  | { readonly kind: 'choice'; readonly condition: Node; readonly yes: Node; readonly no: Node }
  | { readonly kind: 'call'; readonly name: string; readonly run: Operation; readonly args: readonly Node[] }
  | {
      readonly kind: 'each'
      readonly macro: Macro
      readonly over: Node
      readonly variable: string
      readonly condition: Node | undefined
      readonly result: Node | undefined
    }
)

export type Operator = '==' | '!=' | 'in' | '+' | '-' | '*' | '/' | '%' | '<' | '<=' | '>' | '>='
export type Macro = 'map' | 'filter' | 'all' | 'exists' | 'exists_one'

/**
 * The paths a tree reads, each as far as it is fixed: `steps.a.result[item]` reads `steps.a.result`.
 *
 * What starts at a variable of `map` or `filter` is left out: the list it comes from is read.
 */
export function readsOf(tree: Node): readonly (readonly string[])[] {
  const found = new Map<string, readonly string[]>()
  collect(tree, (path) => found.set(JSON.stringify(path), path))
  return [...found.values()]
}

function collect(node: Node, add: (path: readonly string[]) => void): void {
  const path = pathOf(node)
  if (path !== undefined) add(path)
  else for (const child of childrenOf(node)) collect(child, add)
}

function pathOf(node: Node): readonly string[] | undefined {
  if (node.kind === 'name') return [node.name]
  if (node.kind !== 'member' && node.kind !== 'index' && node.kind !== 'has') return undefined
  const key = keyOf(node)
  const path = key === undefined ? undefined : pathOf(node.of)
  return path && [...path, key!]
}

function keyOf(node: Node & { kind: 'member' | 'index' | 'has' }): string | undefined {
  if (node.kind !== 'index') return node.key
  return node.key.kind === 'literal' && typeof node.key.value === 'string' ? node.key.value : undefined
}

function childrenOf(node: Node): readonly Node[] {
  switch (node.kind) {
    case 'literal':
    case 'name':
    case 'variable':
      return []
    case 'member':
    case 'has':
    case 'not':
    case 'negate':
      return [node.of]
    case 'index':
      return [node.of, node.key]
    case 'list':
      return node.items
    case 'map':
      return node.entries.flat()
    case 'and':
    case 'or':
    case 'binary':
      return [node.left, node.right]
    case 'choice':
      return [node.condition, node.yes, node.no]
    case 'call':
      return node.args
    case 'each':
      return [node.over, node.condition, node.result].filter((child) => child !== undefined)
    default:
      return node satisfies never
  }
}
