import {
  type CST,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  Parser,
  parseDocument,
  visit,
  type YAMLError,
} from 'yaml'
import { staysExact } from '../model/exact-numbers.ts'
import {
  formatPath,
  formatPlace,
  type Locate,
  type Path,
  type Place,
  type Problem,
} from '../model/setting-value.ts'

/**
 * A config needs 6 levels. The library recurses: its stack overflows at about 800, and repeated overflows ended a
 * process, because V8 compiled a regular expression there and ran out of memory (Node 20).
 */
const MAX_DEPTH = 64
/** The limit on values after following aliases. A thousand tasks with all their keys need a fifth of it. */
const MAX_VALUES = 100_000

export interface YamlContent {
  readonly value: unknown
  readonly locate: Locate
  /** Problems of the YAML itself. If `readable` is false, checking `value` would only add noise. */
  readonly problems: readonly Problem[]
  readonly readable: boolean
}

/**
 * Parses YAML 1.2 into plain values and records the position of each.
 *
 * Duplicate keys, `__proto__`, unknown tags and further documents are problems. Aliases and merge keys are followed. A
 * small file that expands to a large value is rejected.
 *
 * @param file The name of the file in messages.
 */
export function readYaml(source: string, file: string): YamlContent {
  const lines = new LineCounter()
  const placeOf = (offset: number): Place => {
    const { line, col } = lines.linePos(offset)
    return { file, line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  const unreadable = (problems: Problem[]): YamlContent => ({
    value: undefined,
    locate: () => ({ file }),
    problems,
    readable: false,
  })

  const deep = findTooDeep(new Parser(lines.addNewLine).parse(source))
  if (deep !== undefined) {
    return unreadable([
      { path: '', place: placeOf(deep), message: `nested more than ${MAX_DEPTH} levels deep` },
    ])
  }
  const document = parseDocument(source, {
    prettyErrors: false,
    uniqueKeys: false,
    stringKeys: true,
    resolveKnownTags: false,
  })
  const flaws = worthTelling([...document.errors, ...document.warnings])
  if (flaws.length > 0) {
    return unreadable(
      flaws.map(({ code, message, pos }) => ({
        path: '',
        place: placeOf(pos[0]),
        message: `${explain(code, message)}${hintOfQuotes(source, pos[0])}`,
      })),
    )
  }
  const reading = new Reading(file, placeOf)
  visit(document, { Node: (_key, node) => reading.meet(node) })
  const value = document.contents === null ? null : reading.convert(document.contents, [])
  return { value, locate: reading.locate, problems: reading.problems, readable: !reading.isTooLarge }
}

type Flaw = Pick<YAMLError, 'code' | 'message' | 'pos'>

/** Problems of a file that is valid YAML, each with its own message. */
const OTHER_FLAWS: Readonly<Partial<Record<Flaw['code'], (message: string) => string>>> = {
  MULTIPLE_DOCS: () => 'a second document starts here; keep one',
  NON_STRING_KEY: () => 'a key must be plain text',
  TAG_RESOLVE_FAILED: (message) => `${message}; remove the tag`,
}

/** After a syntax error, the parser reports almost every following token. The first error is the real one. */
function worthTelling(flaws: readonly Flaw[]): readonly Flaw[] {
  const syntax = flaws.filter(({ code }) => OTHER_FLAWS[code] === undefined)
  return syntax.length === 0
    ? flaws
    : [syntax.reduce((first, flaw) => (flaw.pos[0] < first.pos[0] ? flaw : first))]
}

function explain(code: Flaw['code'], message: string): string {
  return OTHER_FLAWS[code]?.(message) ?? `not valid YAML: ${message}`
}

/** Applies to decimal numbers. Others, such as 0x1F and .inf, are short. */
function isWrittenInexact(source: string | undefined): boolean {
  return (
    source !== undefined &&
    /^[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?$/.test(source) &&
    !staysExact(source.replace(/^\+/, ''))
  )
}

const SHOWN_EXPRESSION = 60

/** In YAML, the braces of an unquoted expression are maps, and a colon in it makes a key. */
function hintOfQuotes(source: string, offset: number): string {
  const start = source.lastIndexOf('\n', offset - 1) + 1
  const line = source.slice(start).split('\n', 1)[0]!
  // In YAML, a star begins an alias.
  const cron = /^\s*(?:-\s+)?cron:\s+(\*[^'"#]*)/.exec(line)?.[1]?.trim()
  if (cron !== undefined)
    return `; a cron expression that begins with * needs quotes around it: cron: "${cron}"`
  const expression = findUnquotedExpression(line)
  if (expression === undefined) return ''
  const text = expression.length > SHOWN_EXPRESSION ? '${{ ... }}' : expression
  const quoted = text.includes('"') && !text.includes("'") ? `'${text}'` : `"${text}"`
  return `; an expression needs quotes around it: ${quoted}`
}

/** Finds an expression outside quotes and comments on this line. */
function findUnquotedExpression(line: string): string | undefined {
  // Quotes open a text only where a value can begin. The apostrophe of "don't" does not.
  const quotedOrExpression = /(?<=^|[\s,[{:])(?:"(?:[^"\\]|\\.)*"|'[^']*')|(?<=^|\s)#.*|\$\{\{.*?(?:\}\}|$)/g
  for (const [found] of line.matchAll(quotedOrExpression)) if (found.startsWith('${{')) return found.trimEnd()
  return undefined
}

/** The offset of the first collection that is nested too deep. It must not recurse itself. */
function findTooDeep(tokens: Iterable<CST.Token>): number | undefined {
  const open: { token: CST.Token | null | undefined; depth: number }[] = []
  for (const token of tokens)
    open.push({ token: token.type === 'document' ? token.value : undefined, depth: 1 })
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { token, depth } = next
    if (!token || !('items' in token)) continue
    if (depth > MAX_DEPTH) return token.offset
    for (const { key, value } of token.items)
      open.push({ token: key, depth: depth + 1 }, { token: value, depth: depth + 1 })
  }
  return undefined
}

/** One pass over a document, from nodes to values. */
class Reading {
  readonly problems: Problem[] = []
  isTooLarge = false
  readonly #file: string
  readonly #placeOf: (offset: number) => Place
  readonly #places = new Map<string, { key?: Place; value: Place }>()
  readonly #anchors = new Map<string, Node>()
  readonly #targets = new Map<Node, Node>()
  /** The aliases being followed, outermost first. */
  readonly #following: Node[] = []
  #values = 0

  constructor(file: string, placeOf: (offset: number) => Place) {
    this.#file = file
    this.#placeOf = placeOf
  }

  readonly locate: Locate = (path, part) => {
    for (let length = path.length; length >= 0; length--) {
      const found = this.#places.get(JSON.stringify(path.slice(0, length)))
      if (found !== undefined) return part === 'key' ? (found.key ?? found.value) : found.value
    }
    return { file: this.#file }
  }

  /** Called for each node in file order, because an alias refers to the last anchor of its name before it. */
  meet(node: Node): void {
    if (isAlias(node)) {
      const target = this.#anchors.get(node.source)
      if (target !== undefined) this.#targets.set(node, target)
    } else if (node.anchor !== undefined) {
      this.#anchors.set(node.anchor, node)
    }
  }

  convert(node: Node, path: Path, key?: Node): unknown {
    this.#values += 1
    // Aliases can add to the nesting, so depth is checked here, too.
    if (path.length > MAX_DEPTH || this.#following.length > MAX_DEPTH || this.#values > MAX_VALUES) {
      return this.#stop(node)
    }
    this.#remember(path, node, key)
    if (isAlias(node)) return this.#follow(node, path)
    if (isScalar(node)) {
      if (typeof node.value === 'number' && isWrittenInexact(node.source))
        this.#report(
          path,
          node,
          `${node.source} has more digits than numbers keep; write it as a text, in quotes`,
        )
      return node.value
    }
    if (isSeq<Node>(node)) return node.items.map((item, index) => this.convert(item, [...path, index]))
    return isMap<Node, Node | null>(node) ? this.#convertMap(node.items, path) : undefined
  }

  #convertMap(pairs: readonly { key: Node; value: Node | null }[], path: Path): Record<string, unknown> {
    const map: Record<string, unknown> = {}
    const merged: Node[] = []
    const seen = new Map<string, Node>()
    for (const { key, value } of pairs) {
      const name = isScalar(key) ? String(key.value) : ''
      const below = [...path, name]
      const twin = seen.get(name)
      seen.set(name, key)
      if (twin !== undefined) {
        this.#report(
          below,
          key,
          `duplicate key, first defined at ${formatPlace(this.#place(twin))}; keep one`,
        )
      } else if (name === '__proto__') {
        this.#report(below, key, 'not allowed as a key; remove it')
      } else if (name === '<<' && isScalar(key) && key.type === 'PLAIN') {
        merged.push(...(isSeq<Node>(value) ? value.items : [value ?? key]))
      } else {
        map[name] = value === null ? this.#empty(below, key) : this.convert(value, below, key)
      }
    }
    for (const source of merged) this.#merge(source, path, map)
    return map
  }

  /** Keys written in a map override merged ones, and earlier sources override later ones. */
  #merge(source: Node, path: Path, map: Record<string, unknown>): void {
    const target = isAlias(source) ? this.#targets.get(source) : source
    if (target !== undefined && !isMap(target)) {
      this.#report([...path, '<<'], source, 'merges something that is not a map; write an alias of a map')
      return
    }
    const more = this.convert(source, path)
    if (typeof more === 'object' && more !== null) Object.assign(map, { ...more, ...map })
  }

  #follow(alias: Node & { source: string }, path: Path): unknown {
    const target = this.#targets.get(alias)
    if (target === undefined) {
      this.#report(path, alias, `the alias *${alias.source} has no anchor &${alias.source} before it`)
      return undefined
    }
    if (this.#following.includes(alias)) {
      this.#report(path, alias, `the alias *${alias.source} contains itself`, true)
      return undefined
    }
    this.#following.push(alias)
    const value = this.convert(target, path)
    this.#following.pop()
    return value
  }

  #empty(path: Path, key: Node): null {
    this.#remember(path, key, key)
    return null
  }

  #remember(path: Path, node: Node, key: Node | undefined): void {
    const id = JSON.stringify(path)
    if (this.#places.has(id)) return
    const value = this.#place(node)
    this.#places.set(id, key === undefined ? { value } : { key: this.#place(key), value })
  }

  #place(node: Node): Place {
    return this.#placeOf(node.range?.[0] ?? 0)
  }

  /** A problem inside an anchored value is reported once, where it is written, and not at each alias. */
  #report(path: Path, node: Node, message: string, always = false): void {
    if (this.#following.length > 0 && !always) return
    this.problems.push({ path: formatPath(path), place: this.#place(node), message })
  }

  #stop(node: Node): undefined {
    if (!this.isTooLarge) {
      this.problems.push({
        path: '',
        place: this.#place(node),
        message: `once its aliases are followed, holds more than ${MAX_VALUES} values or ${MAX_DEPTH} levels`,
      })
    }
    this.isTooLarge = true
    return undefined
  }
}
