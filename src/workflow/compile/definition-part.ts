import { isName, NAME_RULE } from '../../model/limits.ts'
import { describe, type Path, type Reader } from '../../model/setting-value.ts'
import { suggest } from '../../model/suggest.ts'

/** Something about a definition that cannot work. */
export interface WorkflowProblem {
  /** From the name of the workflow on: `['pipeline', 'steps', 'align', 'needs', 0]`. */
  readonly path: Path
  /** Whether the key at the path is meant, or its value. */
  readonly part: 'key' | 'value'
  /** What was found and what would be right. */
  readonly message: string
}

/** A part of a definition while it is read: what is written there, where that is, and where its problems go. */
export class DefinitionPart {
  readonly value: unknown
  readonly path: Path
  readonly #problems: WorkflowProblem[]

  constructor(value: unknown, problems: WorkflowProblem[], path: Path = []) {
    this.value = value
    this.path = path
    this.#problems = problems
  }

  /** The part under a key or list position. Its value is `undefined` when nothing is written there. */
  below(key: string | number): DefinitionPart {
    const { value } = this
    const inside = typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    const below: unknown = inside ? (value as Record<string | number, unknown>)[key] : undefined
    return new DefinitionPart(below, this.#problems, [...this.path, key])
  }

  /** The same place with the value that was read from it. */
  as(value: unknown): DefinitionPart {
    return new DefinitionPart(value, this.#problems, this.path)
  }

  has(key: string): boolean {
    return this.below(key).value !== undefined
  }

  /** Returns `undefined`, which a reading function then returns. */
  report(message: string, part: 'key' | 'value' = 'value'): undefined {
    this.#problems.push({ path: this.path, part, message })
    return undefined
  }

  /** A plain value, or `undefined` when it is absent or was reported. */
  read<Out>(reader: Reader<unknown, Out>): Out | undefined {
    if (this.value === undefined) return undefined
    const read = reader.read(this.value)
    return read === undefined ? this.report(`found ${describe(this.value)}; write ${reader.expected}`) : read
  }

  /** The keys of a map in their order, without those set to `undefined` in code. An empty entry is an empty map. */
  keys(): string[] | undefined {
    const { value } = this
    if (value === null) return []
    if (typeof value !== 'object' || Array.isArray(value)) {
      return this.report(`found ${describe(value)}; write a map`)
    }
    const prototype: unknown = Object.getPrototypeOf(value)
    if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
      return this.report('found an object with a prototype of its own; write a plain map')
    }
    return Object.keys(value).filter((key) => this.has(key))
  }

  /** The keys of a map whose keys are fixed. Others are reported, with `explain` where it knows a reason. */
  knownKeys(
    known: readonly string[],
    explain: (key: string) => string | undefined = () => undefined,
  ): string[] | undefined {
    const keys = this.keys()
    return keys?.filter((key) => {
      if (known.includes(key)) return true
      const near = suggest(key, known)
      const hint = near === undefined ? `the keys here are ${known.join(', ')}` : `did you mean ${near}?`
      this.below(key).report(explain(key) ?? `unknown key; ${hint}`, 'key')
      return false
    })
  }

  /** The keys of a map whose keys are names the writer chose. Bad ones are reported and left out. */
  names(): string[] | undefined {
    return this.keys()?.filter((key) => {
      if (isName(key)) return true
      this.below(key).report(`found the name ${describe(key)}; write ${NAME_RULE}`, 'key')
      return false
    })
  }
}
