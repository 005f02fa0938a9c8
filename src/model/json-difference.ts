import { isList, isMap, type JsonValue } from './json.ts'
import { ownValue } from './own-value.ts'

/** A difference between two values. `undefined` means that one of them has nothing at this path. */
export interface JsonDifference {
  /** For example `rows[3].name`. Empty when the whole values differ. */
  readonly path: string
  readonly here?: JsonValue | undefined
  readonly there?: JsonValue | undefined
}

const PLAIN_NAME = /^[\p{L}_][\p{L}\p{N}_-]*$/u

/**
 * Finds where `here` differs from `there`, as deep as both have the same shape, in the order of `here`. Returns at
 * most `limit` differences.
 */
export function differences(here: JsonValue, there: JsonValue, limit: number): JsonDifference[] {
  const found: JsonDifference[] = []
  collect(here, there, '', limit, found)
  return found
}

function collect(
  here: JsonValue | undefined,
  there: JsonValue | undefined,
  path: string,
  limit: number,
  found: JsonDifference[],
): void {
  if (found.length >= limit || here === there) return
  if (isList(here) && isList(there)) {
    for (let n = 0; n < Math.max(here.length, there.length) && found.length < limit; n++)
      collect(here[n], there[n], `${path}[${n}]`, limit, found)
    return
  }
  if (isMap(here) && isMap(there)) {
    for (const name of new Set([...Object.keys(here), ...Object.keys(there)])) {
      if (found.length >= limit) return
      collect(ownValue(here, name), ownValue(there, name), below(path, name), limit, found)
    }
    return
  }
  found.push({ path, here, there })
}

function below(path: string, name: string): string {
  if (!PLAIN_NAME.test(name)) return `${path}[${JSON.stringify(name)}]`
  return path === '' ? name : `${path}.${name}`
}
