import { isName, NAME_RULE } from '../model/limits.ts'
import {
  describe,
  formatPath,
  formatPlace,
  type InputOf,
  type Locate,
  type OutputOf,
  type Path,
  type Problem,
  type Reader,
} from '../model/setting-value.ts'
import { suggest } from '../model/suggest.ts'

/**
 * What a part of the config must look like. One shape gives the check at run time, the type a writer
 * may use (`Written`), the type after the check (`Checked`), and the list of keys for the reference.
 */
export interface Shape<In, Out> {
  /** The value in its checked form; `undefined` once a problem was reported. */
  check(value: unknown, at: Spot): Out | undefined
  /** The keys below it. Empty for plain values. */
  readonly keys: readonly Key[]
  /** What a plain value may be, in short. */
  readonly bound?: string
  /** Never set. Carries the type a writer may use. */
  readonly input?: In
}

/** A key as the reference lists it: `lanes.NAME.slots`, where NAME is the writer's choice. */
export interface Key {
  readonly path: string
  readonly bound?: string | undefined
}

export type Written<S> = S extends Shape<infer In, unknown> ? In : never
export type Checked<S> = S extends Shape<unknown, infer Out> ? Out : never

/** A place in the config while it is checked, and where its problems go. */
export class Spot {
  readonly path: Path
  readonly #locate: Locate
  readonly #problems: Problem[]

  constructor(locate: Locate, problems: Problem[], path: Path = []) {
    this.#locate = locate
    this.#problems = problems
    this.path = path
  }

  below(key: string | number): Spot {
    return new Spot(this.#locate, this.#problems, [...this.path, key])
  }

  /** Reports the value here, or with `part` its key. Returns `undefined`, which a check then returns. */
  report(message: string, part: 'key' | 'value' = 'value'): undefined {
    const place = this.#locate(this.path, part)
    this.#problems.push({ path: formatPath(this.path), place, message })
    return undefined
  }

  /** How a message about another part of the config points here. */
  toString(): string {
    const place = this.#locate(this.path, 'value')
    const path = formatPath(this.path)
    return place?.line === undefined ? path : `${path} (${formatPlace(place)})`
  }
}

/** A plain value, read as the settings table reads it. */
export function value<In, Out>(reader: Reader<In, Out>): Shape<In, Out> {
  return {
    keys: [],
    bound: reader.bound,
    check(found, at) {
      const read = reader.read(found)
      return read === undefined ? at.report(`found ${describe(found)}; write ${reader.expected}`) : read
    },
  }
}

/** The fields of a registry, each a plain value. */
export function values<F extends Readonly<Record<string, Reader<unknown, unknown>>>>(
  fields: F,
): { readonly [K in keyof F]: Shape<InputOf<F[K]>, OutputOf<F[K]>> } {
  const shapes = Object.entries(fields).map(([name, reader]) => [name, value(reader)])
  return Object.fromEntries(shapes) as { readonly [K in keyof F]: Shape<InputOf<F[K]>, OutputOf<F[K]>> }
}

/** Text that can be stored: no NUL, no half of a surrogate pair. */
export function text(rules: { expected: string; secret?: boolean; empty?: boolean }): Shape<string, string> {
  const { expected, secret = false, empty = false } = rules
  return {
    keys: [],
    check(found, at) {
      if (typeof found !== 'string') {
        // The value of a variable may be a password somebody forgot to quote: tell its kind only.
        const what = secret && typeof found !== 'object' ? `a ${typeof found}` : describe(found)
        return at.report(`found ${what}; write ${expected}`)
      }
      if (found === '' && !empty) return at.report(`found empty text; write ${expected}`)
      if (found.includes('\0')) return at.report('contains a NUL character; remove it')
      if (/\p{Surrogate}/u.test(found)) return at.report('contains an unpaired surrogate; remove it')
      return found
    },
  }
}

/** The name of a task, lane or budget. */
export const name: Shape<string, string> = {
  keys: [],
  check: (found, at) =>
    typeof found === 'string' && isName(found)
      ? found
      : at.report(`found ${describe(found)}; write ${NAME_RULE}`),
}

/** A list whose items all have one shape. */
export function list<In, Out>(
  item: Shape<In, Out>,
  rules: { expected: string; min?: number },
): Shape<readonly In[], readonly Out[]> {
  return {
    keys: [],
    check(found, at) {
      if (!Array.isArray(found) || found.length < (rules.min ?? 0)) {
        const what = Array.isArray(found) ? 'an empty list' : describe(found)
        return at.report(`found ${what}; write ${rules.expected}`)
      }
      // A reported item leaves a hole, so that the others keep their positions for later messages.
      return Array.from(found, (entry: unknown, index) => item.check(entry, at.below(index))) as Out[]
    },
  }
}

/** A map from names the writer chooses to values of one shape. An empty entry in YAML is an empty map. */
export function record<In, Out>(
  entry: Shape<In, Out>,
  keyRule: { fits: (key: string) => boolean; expected: string } = { fits: isName, expected: NAME_RULE },
): Shape<{ readonly [key: string]: In } | null, { readonly [key: string]: Out }> {
  return {
    keys: keysUnder('NAME', entry),
    check(found, at) {
      const entries = readMap(found, at)
      // Without a prototype, looking up a task called "constructor" finds nothing instead of a function.
      const checked: Record<string, Out> = Object.create(null)
      for (const [key, given] of entries ?? []) {
        const below = at.below(key)
        if (!keyRule.fits(key)) {
          below.report(`found the name ${describe(key)}; write ${keyRule.expected}`, 'key')
          continue
        }
        const out = entry.check(given, below)
        if (out !== undefined) checked[key] = out
      }
      return entries === undefined ? undefined : checked
    },
  }
}

export type Fields = Readonly<Record<string, Shape<unknown, unknown>>>
export type WrittenFields<F extends Fields> = { readonly [K in keyof F]?: Written<F[K]> | undefined }
export type CheckedFields<F extends Fields> = { readonly [K in keyof F]?: Checked<F[K]> }

/** A map with known keys, all of them optional. An empty entry in YAML is an empty map. */
export function object<F extends Fields>(fields: F): Shape<WrittenFields<F> | null, CheckedFields<F>> {
  const known = Object.keys(fields)
  return {
    keys: known.flatMap((key) => keysUnder(key, fields[key]!)),
    check(found, at) {
      const entries = readMap(found, at)
      if (entries === undefined) return undefined
      const checked: Record<string, unknown> = {}
      for (const [key, given] of entries) {
        const below = at.below(key)
        const shape = Object.hasOwn(fields, key) ? fields[key] : undefined
        if (shape === undefined) {
          const near = suggest(key, known)
          const hint = near === undefined ? `the keys here are ${known.join(', ')}` : `did you mean ${near}?`
          below.report(`unknown key; ${hint}`, 'key')
          continue
        }
        const out = shape.check(given, below)
        if (out !== undefined) checked[key] = out
      }
      return checked as CheckedFields<F>
    },
  }
}

function keysUnder(key: string, { keys, bound }: Shape<unknown, unknown>): Key[] {
  return [{ path: key, bound }, ...keys.map((below) => ({ ...below, path: `${key}.${below.path}` }))]
}

/** The entries of a map; those set to `undefined` in code count as not there. */
function readMap(found: unknown, at: Spot): [string, unknown][] | undefined {
  if (found === null) return []
  if (typeof found !== 'object' || Array.isArray(found)) {
    return at.report(`found ${describe(found)}; write a map`)
  }
  const prototype: unknown = Object.getPrototypeOf(found)
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    return at.report('found an object with a prototype of its own; write a plain map')
  }
  return Object.entries(found).filter(([, given]) => given !== undefined)
}
