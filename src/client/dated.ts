/** Fields that hold times. The wire has them as text; a test compares this with the schemas. */
type Moment = `${string}At` | 'at' | 'since' | 'until'

/** `T` of the wire, with times as dates. */
export type Dated<T> = T extends readonly (infer Item)[]
  ? Dated<Item>[]
  : T extends object
    ? { [K in keyof T]: K extends Moment ? OrDate<T[K]> : Dated<T[K]> }
    : T

type OrDate<T> = T extends string ? Date : Dated<T>

/** The parts of a schema that lead to times. */
interface Described {
  readonly format?: string
  readonly items?: Described
  readonly properties?: Readonly<Record<string, Described>>
}

/**
 * Converts times in a response to dates. The schema identifies them, so inputs and results of jobs stay unchanged
 * whatever they contain.
 */
export function dated<T>(schema: object, value: T): Dated<T> {
  return revive(schema, value) as Dated<T>
}

function revive({ format, items, properties }: Described, value: unknown): unknown {
  if (format === 'date-time') return typeof value === 'string' ? new Date(value) : value
  if (Array.isArray(value)) return items === undefined ? value : value.map((each) => revive(items, each))
  if (properties === undefined || typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => {
      const own = Object.hasOwn(properties, name) ? properties[name] : undefined
      return [name, own === undefined ? field : revive(own, field)]
    }),
  )
}
