import type { Queryable } from '../../db/database.ts'
import { loadMigrations } from '../../db/migrate.ts'
import { describeUnsupported, type MigrationState } from '../../db/schema-state.ts'
import type { Attention } from '../../model/attention.ts'
import type { HeldLock } from '../../model/held-lock.ts'
import { JOB_TABLES } from '../../model/job-tables.ts'
import { findTableLocks } from '../../store/find-table-locks.ts'
import { readSchemaVersion } from '../../store/read-schema-version.ts'
import { within } from '../../within.ts'
import { findAttention } from './find-attention.ts'

export interface Readiness {
  /** `ok`, or what is wrong. */
  readonly database: string
  readonly schema: string
  /** Tables that other sessions hold locked. */
  readonly locks: readonly HeldLock[]
}

/** A readiness check must not wait longer for a database that does not answer, for both questions together: it promises a second. */
const ANSWER_WITHIN_MS = 900
/** Anybody may ask, as often as they like: the database is asked at most this often. */
const FRESH_MS = 250
/** What needs attention is read at most this often; a request after that waits until it has been read again. */
const ATTENTION_MS = 2000

/** Whether the database can be reached and has a schema that this program can use. */
export class ReadinessProbe {
  readonly #db: Queryable
  #asked = Number.NEGATIVE_INFINITY
  #answer: Promise<Readiness> | undefined
  /** The version this program needs. Read from its files once: they do not change, and take several turns of a busy event loop. */
  #needed: number | undefined
  #attention: readonly Attention[] | undefined
  #attentionAt = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined

  /** @param db With two connections for this alone, one for each question: behind a lock or many submissions, all others may wait. */
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

  /**
   * What needs attention, at most `ATTENTION_MS` old; `undefined` while nobody could read it.
   *
   * @param askedAt When the caller began to ask: what `look` took is no longer there to wait.
   */
  async attention(askedAt = performance.now()): Promise<readonly Attention[] | undefined> {
    // One at a time: of a database that answers slowly nobody asks for more.
    if (this.#reading === undefined && performance.now() - this.#attentionAt > ATTENTION_MS)
      this.#reading = this.#readAttention()
    if (this.#reading === undefined) return this.#attention
    await Promise.race([this.#reading, pause(askedAt + ANSWER_WITHIN_MS - performance.now())])
    return this.#reading === undefined ? this.#attention : undefined
  }

  async #readAttention(): Promise<void> {
    try {
      this.#attention = (await findAttention(this.#db)).findings
    } catch {
      this.#attention = undefined
    }
    this.#attentionAt = performance.now()
    this.#reading = undefined
  }

  async #ask(): Promise<Readiness> {
    try {
      return await within(ANSWER_WITHIN_MS, undefined, () => this.#compare())
    } catch {
      return { database: 'not reachable', schema: 'not known', locks: [] }
    }
  }

  async #compare(): Promise<Readiness> {
    // First, because it waits for no lock itself.
    const locks = await findTableLocks(this.#db)
    if (stops(locks)) return { database: LOCKED, schema: 'not known', locks }
    this.#needed ??= (await loadMigrations()).at(-1)?.version ?? 0
    const schema = schemaProblem({ ...(await readSchemaVersion(this.#db)), available: this.#needed })
    return { database: 'ok', schema, locks }
  }
}

const LOCKED = 'a table is locked'

/** Whether jobs can be neither stored nor moved on: of the other tables only a lock that keeps even readers out does that. */
function stops(locks: readonly HeldLock[]): boolean {
  return locks.some(({ name, blocksReading }) => JOB_TABLES.includes(name) || blocksReading)
}

function schemaProblem(schema: MigrationState): string {
  const { applied, compatibleSince, available } = schema
  if (applied < available) return `at version ${applied}, but this program needs ${available}`
  return compatibleSince > available ? describeUnsupported(schema) : 'ok'
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
}
