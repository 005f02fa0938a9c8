import type { Logger } from 'pino'
import type { Queryable } from '../../db/database.ts'
import { type AuditEntry, audit } from '../../engine/access/audit.ts'

type Refusal = Pick<AuditEntry, 'actor' | 'keyId' | 'action' | 'refused'>

interface Count {
  /** Of the period: those that were to be written, and those beyond. */
  count: number
  more: number
  /** The last one that was left out. */
  last: Refusal | undefined
  readonly timer: NodeJS.Timeout
}

export interface TallyOptions {
  /** How many of one source are written down in a period. */
  readonly most: number
  readonly periodMs: number
  /** How many sources are counted apart. The rest are counted together. */
  readonly sources: number
  /** Writes a line into the audit. Must not reject. */
  readonly write: (entry: AuditEntry) => Promise<void>
}

const OTHERS = 'other sources'
const PERIOD_MS = 60_000
/** A program that repeats what it may not do would fill the audit; this often a minute says enough about a key. */
const MOST_PER_KEY = 100
const KEYS = 10_000
/** An address that fails more often than this has to wait: `FAILURES_PER_ADDRESS` of `identify.ts`. */
const MOST_PER_ADDRESS = 20
/** So that of all addresses together about 1,000 wrong keys a minute are written down one by one. */
const ADDRESSES = 50

/** What a server counts: refusals by key, and wrong keys by the address they came from. */
export function refusalTallies(
  db: Queryable,
  log: Pick<Logger, 'warn'>,
): { readonly refusals: RefusalTally; readonly wrongKeys: RefusalTally } {
  const write = (entry: AuditEntry) =>
    audit(db, entry).catch((error) =>
      log.warn({ err: error }, 'could not record rejected attempts in the audit log'),
    )
  const common = { periodMs: PERIOD_MS, write }
  return {
    refusals: new RefusalTally({ ...common, most: MOST_PER_KEY, sources: KEYS }),
    wrongKeys: new RefusalTally({ ...common, most: MOST_PER_ADDRESS, sources: ADDRESSES }),
  }
}

/**
 * Decides which refusals are written into the audit, in bounded number and memory, and writes one line about the others
 * when their period is over: an attack must not fill the audit, and must not hide in what was left out.
 */
export class RefusalTally {
  readonly #options: TallyOptions
  readonly #counts = new Map<string, Count>()

  constructor(options: TallyOptions) {
    this.#options = options
  }

  /** Counts a refusal. True when it is to be recorded; one line counts the others. */
  admit(source: string, refusal: Refusal): boolean {
    const count = this.#countOf(source)
    count.count++
    if (count.count <= this.#options.most) return true
    this.#leaveOut(count, refusal)
    return false
  }

  /** Counts a refusal that is not written down whatever the number. */
  leaveOut(source: string, refusal: Refusal): void {
    this.#leaveOut(this.#countOf(source), refusal)
  }

  /** Writes what is left to say. */
  async close(): Promise<void> {
    await Promise.all([...this.#counts.keys()].map((source) => this.#end(source)))
  }

  #leaveOut(count: Count, refusal: Refusal): void {
    count.more++
    count.last = refusal
  }

  #countOf(source: string): Count {
    const name = this.#counts.has(source) || this.#counts.size < this.#options.sources ? source : OTHERS
    const known = this.#counts.get(name)
    if (known !== undefined) return known
    const timer = setTimeout(() => void this.#end(name), this.#options.periodMs)
    timer.unref()
    const count: Count = { count: 0, more: 0, last: undefined, timer }
    this.#counts.set(name, count)
    return count
  }

  async #end(source: string): Promise<void> {
    const count = this.#counts.get(source)
    if (count === undefined) return
    clearTimeout(count.timer)
    this.#counts.delete(source)
    if (count.last === undefined) return
    const others = source === OTHERS ? { actor: 'several', keyId: undefined } : {}
    await this.#options.write({
      ...count.last,
      ...others,
      target: `and ${count.more} more of ${source}`,
      after: { more: count.more },
    })
  }
}
