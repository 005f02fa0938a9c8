import { isList, type JsonValue } from '../model/json.ts'

/**
 * One text for equal values: no spaces, keys in the order of their UTF-16 units, lists as they are.
 *
 * PostgreSQL gives the keys of `jsonb` back in another order than they came, so the text of a graph is
 * taken before it is stored, and again by whoever wants to compare.
 */
export function canonicalJson(value: JsonValue): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (isList(value)) return `[${value.map(canonicalJson).join(',')}]`
  const entries = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key]!)}`)
  return `{${entries.join(',')}}`
}
