import { isList, isMap, type JsonValue } from './json.ts'

/**
 * A value as PostgreSQL gives it back once it was stored as `jsonb`: with its keys in another order, which an expression can see. So what is
 * decided from a value in memory is the same as what would be decided from it after it was stored.
 */
export function asStored(value: JsonValue): JsonValue {
  if (isList(value)) return value.map(asStored)
  if (isMap(value)) {
    const keys = Object.keys(value).sort(inStoredOrder)
    return Object.fromEntries(keys.map((key) => [key, asStored(value[key]!)]))
  }
  // Minus zero has no sign as a text.
  return value === 0 ? 0 : value
}

/** Shorter keys first, by bytes; those of one length in the order of their bytes. */
function inStoredOrder(one: string, other: string): number {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length - b.length || a.compare(b)
}
