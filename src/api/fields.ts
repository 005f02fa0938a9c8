import { type TOptional, type TUnsafe, Type } from 'typebox'
import { type Field, type Fields, storedSchema, writtenSchema } from '../model/fields/field.ts'
import type { InputOf, OutputOf } from '../model/setting-value.ts'

type Written<F> = { readonly [K in keyof F]: TOptional<TUnsafe<InputOf<F[K]>>> }
type Stored<F> = {
  readonly [K in keyof F as F[K] extends Field<unknown, unknown, infer Name> ? Name : never]: TUnsafe<
    OutputOf<F[K]>
  >
}

/** Fields as a request writes them: what is left out stays as it is. */
export function writtenProperties<const F extends Fields>(fields: F): Written<F> {
  const schemas = Object.entries(fields).map(([name, field]) => [
    name,
    Type.Optional(Type.Unsafe(writtenSchema(field))),
  ])
  return Object.fromEntries(schemas) as Written<F>
}

/** Fields as a response shows them. */
export function storedProperties<const F extends Fields>(fields: F): Stored<F> {
  const schemas = Object.values(fields).map((field) => [field.storedAs, Type.Unsafe(storedSchema(field))])
  return Object.fromEntries(schemas) as Stored<F>
}
