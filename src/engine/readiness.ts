import type { Queryable } from '../db/database.ts'
import { loadMigrations } from '../db/migrate.ts'
import { readSchemaVersion } from '../store/read-schema-version.ts'

export interface Readiness {
  /** `ok`, or what is wrong. */
  readonly database: string
  readonly schema: string
}

/** Whoever asks must not wait longer for a database that does not answer. */
const ANSWER_WITHIN_MS = 2000
/** Anybody may ask, as often as they like: the database is asked at most this often. */
const FRESH_MS = 250

/** Whether the database can be reached and has the schema of this program. */
export class ReadinessProbe {
  readonly #db: Queryable
  #asked = Number.NEGATIVE_INFINITY
  #answer: Promise<Readiness> | undefined
  /** The version this program needs. Read from its files once: they do not change, and take several turns of a busy event loop. */
  #needed: number | undefined

  constructor(db: Queryable) {
    this.#db = db
  }

  look(): Promise<Readiness> {
    if (this.#answer === undefined || performance.now() - this.#asked > FRESH_MS) {
      this.#asked = performance.now()
      this.#answer = this.#ask()
    }
    return this.#answer
  }

  async #ask(): Promise<Readiness> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('no answer in time')), ANSWER_WITHIN_MS)
    })
    try {
      // Both under the same limit: a promise that fails while nobody waits for it ends the process.
      return await Promise.race([this.#compare(), late])
    } catch {
      return { database: 'not reachable', schema: 'not known' }
    } finally {
      clearTimeout(timer)
    }
  }

  async #compare(): Promise<Readiness> {
    this.#needed ??= (await loadMigrations()).at(-1)?.version ?? 0
    const applied = await readSchemaVersion(this.#db)
    const schema =
      applied === this.#needed ? 'ok' : `at version ${applied}, this program needs ${this.#needed}`
    return { database: 'ok', schema }
  }
}
