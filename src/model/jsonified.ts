import type { JsonValue } from './json.ts'

/**
 * What a value of type `T` becomes when it is stored as JSON and read back: a `Date` becomes text, a field that may be
 * `undefined` is optional, functions and symbols disappear, and `undefined` itself becomes `null`.
 *
 *     Jsonified<{ at: Date; note?: string; tags: Set<string> }>   // { at: string; note?: string; tags: Record<string,
 *     never> }
 */
export type Jsonified<T> = 0 extends T & 1
  ? T
  : unknown extends T
    ? unknown
    : [T] extends [JsonValue]
      ? T
      : T extends Unstored
        ? null
        : T extends string | number | boolean | null
          ? T
          : T extends bigint
            ? never
            : T extends { toJSON(...args: never): infer Json }
              ? Jsonified<Json>
              : T extends readonly unknown[]
                ? { [K in keyof T]: Jsonified<T[K]> }
                : T extends Empty
                  ? Record<string, never>
                  : T extends Error
                    ? JsonifiedFields<Omit<T, keyof Error>>
                    : T extends object
                      ? JsonifiedFields<T>
                      : never

/** The types that JSON omits from objects and writes as `null` in lists. */
// biome-ignore lint/suspicious/noConfusingVoidType: functions that return nothing have this type
type Unstored = undefined | void | symbol | ((...args: never) => unknown)

/** The types that JSON writes as `{}`. */
type Empty =
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>
  | WeakMap<WeakKey, unknown>
  | WeakSet<WeakKey>
  | RegExp
  | Promise<unknown>

type JsonifiedFields<T> = Flat<
  { [K in keyof T as Kept<T, K, false>]: Jsonified<T[K]> } & {
    [K in keyof T as Kept<T, K, true>]?: Jsonified<Exclude<T[K], Unstored>>
  }
>

/** The name of a stored field if its optionality matches `Optional`; otherwise never. */
type Kept<T, K extends keyof T, Optional extends boolean> = K extends symbol
  ? never
  : unknown extends T[K]
    ? KeptIf<K, Optional, false> // `any` and `unknown` stay as they are.
    : [T[K]] extends [never]
      ? KeptIf<K, Optional, false>
      : [T[K]] extends [Unstored]
        ? never
        : KeptIf<K, Optional, [Extract<T[K], Unstored>] extends [never] ? false : true>

type KeptIf<K, Optional extends boolean, Absent extends boolean> = Absent extends Optional ? K : never

type Flat<T> = { [K in keyof T]: T[K] }
