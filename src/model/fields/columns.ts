import type { Fields } from './field.ts'

/** The column of a field. `sluice.columns_v1` follows the same rule. */
export function columnOf(storedAs: string): string {
  return storedAs.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** The columns of all fields of a table or alias: `l.slots, l.per_worker`. */
export function columnsOf(fields: Fields, table?: string): string {
  const prefix = table === undefined ? '' : `${table}.`
  return Object.values(fields)
    .map(({ storedAs }) => `${prefix}${columnOf(storedAs)}`)
    .join(', ')
}

/** The same with the names that programs read: `l.per_worker as "perWorker"`. The driver reads `bigint` as text, so whole numbers are cast. */
export function selected(fields: Fields, table: string): string {
  return Object.values(fields)
    .map(({ storedAs, stored }) => {
      const cast = [stored.type].flat().includes('integer') ? '::float8' : ''
      return `${table}.${columnOf(storedAs)}${cast} as "${storedAs}"`
    })
    .join(', ')
}

/** Stored values by their columns. */
export function toColumns(values: object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [columnOf(name), value]))
}
