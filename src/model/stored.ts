import { isList, isMap, type JsonValue } from './json.ts'

/**
 * Returns a value as PostgreSQL returns it from `jsonb`, with its keys in another order, which expressions can
 * observe. A decision from the value in memory is then the same as one from the stored value.
 */
export function asStored(value: JsonValue): JsonValue {
  if (isList(value)) return value.map(asStored)
  if (isMap(value)) {
    const keys = Object.keys(value).sort(inStoredOrder)
    return Object.fromEntries(keys.map((key) => [key, asStored(value[key]!)]))
  }
  // Minus zero loses its sign as text.
  return value === 0 ? 0 : value
}

/** Shorter keys first, by bytes. Keys of one length are in byte order. */
function inStoredOrder(one: string, other: string): number {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length - b.length || a.compare(b)
}
