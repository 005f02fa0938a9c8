/** Fields that are moments. The wire has them as text; a test compares this with the schemas. */
type Moment = `${string}At` | 'at' | 'since' | 'until'

/** What the wire calls `T`, with dates for moments. */
export type Dated<T> = T extends readonly (infer Item)[]
  ? Dated<Item>[]
  : T extends object
    ? { [K in keyof T]: K extends Moment ? OrDate<T[K]> : Dated<T[K]> }
    : T

type OrDate<T> = T extends string ? Date : Dated<T>

/** The parts of a schema that lead to moments. */
interface Described {
  readonly format?: string
  readonly items?: Described
  readonly properties?: Readonly<Record<string, Described>>
}

/**
 * Makes dates of the moments in an answer. The schema tells which texts are moments: inputs and results of jobs are
 * described by none, and stay as they are whatever is in them.
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
