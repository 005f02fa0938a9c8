import type { Queryable } from '../../db/database.ts'
import { findKeys, type LiveKey } from '../../store/find-keys.ts'
import { markKeysUsed } from '../../store/mark-keys-used.ts'
import { type Caller, toCaller } from './caller.ts'
import { hashOf, looksLike, lookupOf, sameHash } from './secret.ts'

interface Waiting {
  readonly hash: Buffer
  readonly resolve: (key: LiveKey | undefined) => void
  readonly reject: (error: unknown) => void
}

/** One in flight and one to follow: a lookup waits at most for the rest of one round trip before its own begins. */
const MOST_IN_FLIGHT = 2

/**
 * Looks up keys, many with one statement.
 *
 * All lookups of one turn of the event loop share a statement, and later ones join the next. Nothing is cached: each
 * lookup is answered by a statement that began after it, so a committed revocation applies to every later request, on
 * every server.
 */
export class KeyLookup {
  readonly #db: Queryable
  #waiting: Waiting[] = []
  #inFlight = 0
  #scheduled = false

  constructor(db: Queryable) {
    this.#db = db
  }

  /** Returns the valid key with this hash, if there is one. Rejects when the database is unavailable. */
  find(hash: Buffer): Promise<LiveKey | undefined> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ hash, resolve, reject })
      this.#schedule()
    })
  }

  #schedule(): void {
    if (this.#scheduled || this.#inFlight >= MOST_IN_FLIGHT || this.#waiting.length === 0) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      void this.#flush()
    })
  }

  async #flush(): Promise<void> {
    const batch = this.#waiting
    this.#waiting = []
    this.#inFlight++
    try {
      const prefixes = new Map(batch.map(({ hash }) => [hash.toString('hex'), lookupOf(hash)]))
      const keys = await findKeys(this.#db, [...prefixes.values()])
      const used = new Set<string>()
      for (const { hash, resolve } of batch) {
        const key = keys.find((each) => sameHash(each.hash, hash))
        if (key?.unmarked) used.add(key.id)
        resolve(key)
      }
      if (used.size > 0) await this.#mark([...used])
    } catch (error) {
      for (const { reject } of batch) reject(error)
    } finally {
      this.#inFlight--
      this.#schedule()
    }
  }

  /** Recording when a key was last used must not fail a request. It is recorded with the next one. */
  async #mark(ids: readonly string[]): Promise<void> {
    await markKeysUsed(this.#db, ids).catch(() => {})
  }
}

const lookups = new WeakMap<Queryable, KeyLookup>()

/**
 * Returns the owner and permissions of a key.
 *
 * `undefined` for anything else: not a key, unknown, expired or revoked. Callers must not learn which.
 *
 * @throws {SluiceError} `DATABASE_UNAVAILABLE` when the database is unavailable.
 */
export async function authenticate(db: Queryable, token: string): Promise<Caller | undefined> {
  if (!looksLike('key', token)) return undefined
  let lookup = lookups.get(db)
  if (lookup === undefined) {
    lookup = new KeyLookup(db)
    lookups.set(db, lookup)
  }
  const key = await lookup.find(hashOf(token))
  return key === undefined ? undefined : toCaller(key)
}
