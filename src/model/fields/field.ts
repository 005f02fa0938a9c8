import type { InputOf, JsonType, OutputOf, Reader } from '../setting-value.ts'

/**
 * A field of something that files, programs and operators configure: a lane, a budget, a pool.
 *
 * It is declared once. The config file, options in code, bodies of requests and responses, options of the command line, the statements that
 * store and list it, the audit, and the reference follow from the declaration.
 */
export interface Field<In, Out, Stored extends string = string> extends Reader<In, Out> {
  /** The name of its stored value, such as `pollMs`. Its column has the same name in snake case: `poll_ms`. */
  readonly storedAs: Stored
  /** The value where nobody gives one; `undefined` where it depends on something else. */
  readonly default: Out | undefined
  /** What the reference says of the default where there is no fixed one. */
  readonly defaultText: string | undefined
  /** What it means, as a sentence without its full stop. */
  readonly text: string
  /** What else the reference says of it, in Markdown. */
  readonly more: string | undefined
  /** False: it has no option of its own on the command line. */
  readonly hasOption: boolean
}

export type Fields = Readonly<Record<string, Field<unknown, unknown>>>

/** The fields as a config file, a program or a request writes them. */
export type WrittenFields<F> = { readonly [K in keyof F]?: InputOf<F[K]> | undefined }

/** Their values once they are read, by the names under which they are stored. */
export type StoredFields<F> = {
  readonly [K in keyof F as F[K] extends Field<unknown, unknown, infer Stored> ? Stored : never]: OutputOf<
    F[K]
  >
}

export function field<In, Out, const Stored extends string>(
  storedAs: Stored,
  reader: Reader<In, Out>,
  about: {
    text: string
    more?: string
    default?: NoInfer<Out>
    defaultText?: string
    hasOption?: boolean
  },
): Field<In, Out, Stored> {
  const { text, more, default: value, defaultText, hasOption = true } = about
  return { ...reader, storedAs, text, more, default: value, defaultText, hasOption }
}

/** The stored values of all fields that have a fixed default. */
export function defaultsOf<F extends Fields>(fields: F): Partial<StoredFields<F>> {
  const fixed = Object.values(fields).filter((each) => each.default !== undefined)
  return Object.fromEntries(fixed.map((each) => [each.storedAs, each.default])) as Partial<StoredFields<F>>
}

/** The fields of something that has more than its fields. */
export function pickStored<F extends Fields, V extends { readonly [K in keyof StoredFields<F>]: unknown }>(
  fields: F,
  from: V,
): Pick<V, keyof StoredFields<F>> {
  const names = Object.values(fields).map(({ storedAs }) => storedAs as keyof StoredFields<F>)
  return Object.fromEntries(names.map((name) => [name, from[name]])) as Pick<V, keyof StoredFields<F>>
}

/** The JSON schema of a field as it is written. Texts are read later, by its reader. */
export function writtenSchema(each: Reader<unknown, unknown> & { readonly text?: string }): JsonType {
  const { written, words, expected, text } = each
  const types = [written.type].flat()
  const description = text === undefined ? expected : `${text}: ${expected}`
  if (words.length === 0) return { ...written, description }
  // Beside other texts, such as durations, words need no pattern of their own.
  if (types.includes('string')) return { ...written, description }
  return {
    ...written,
    type: [...types.filter((type) => type !== 'null'), 'string', ...types.filter((type) => type === 'null')],
    pattern: `^(?:${words.join('|')})$`,
    'x-rule': expected,
    description,
  }
}

/** The JSON schema of its stored value. */
export function storedSchema(each: Field<unknown, unknown>): JsonType {
  return { ...each.stored, description: each.text }
}
