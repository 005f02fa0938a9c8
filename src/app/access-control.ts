import type { Database, Queryable } from '../db/database.ts'
import { transactWithRetries, withRetries } from '../db/with-retries.ts'
import { type AuditPage, readAudit } from '../engine/access/audit-list.ts'
import { type Author, authorOfDatabase } from '../engine/access/author.ts'
import * as keys from '../engine/access/keys.ts'
import * as roles from '../engine/access/roles.ts'
import { checkFlag, checkOptions } from '../model/argument.ts'
import { type Duration, parseDuration } from '../model/duration.ts'
import type { RunScopeOptions } from '../model/run-scope.ts'
import type { AuditFilter } from '../store/list-audit.ts'
import type { KeyView } from '../store/list-keys.ts'
import type { RoleView } from '../store/list-roles.ts'

export interface KeyOptions {
  /** Whose it is: what its jobs and the audit say. Keys of one name share their jobs. */
  readonly name: string
  readonly role: string
  /** How long it lives. Default: until it is revoked. */
  readonly expires?: Duration | null
  /** What its workers may run, for a role with `workers:run`. What is left out allows nothing; `'*'` is everything. */
  readonly runs?: RunScopeOptions
  /** The name has jobs, schedules or former keys, and the owner of this key is meant to have them. The audit says so. */
  readonly takeover?: boolean
}

export interface RevokeOptions {
  /** Disables the schedules of its owner too, also where the owner has other keys. They are kept. */
  readonly withSchedules?: boolean
}

const PAGE = 1000

/** API keys, roles and the audit. Whoever has the database may do all of it; the audit names the `actor` of the program. */
export class AccessControl {
  readonly #db: Database
  readonly #calls: Queryable
  readonly #author: Author

  /** @internal */
  constructor(db: Database, actor: string, reason?: string) {
    this.#db = db
    this.#calls = withRetries(db)
    this.#author = authorOfDatabase(actor, reason)
  }

  /** All keys, revoked and expired ones included. */
  async listKeys(): Promise<KeyView[]> {
    const found: KeyView[] = []
    for (;;) {
      const page = await keys.listKeys(this.#calls, found.at(-1)?.id, PAGE)
      found.push(...page)
      if (page.length < PAGE) return found
    }
  }

  /** Makes a key. The answer is the only time it is shown. */
  async createKey(options: KeyOptions): Promise<keys.CreatedKey> {
    checkOptions(options, ['name', 'role', 'expires', 'runs', 'takeover'], 'options')
    const { name, role, expires = null, runs, takeover } = options
    if (takeover !== undefined) checkFlag(takeover, 'takeover')
    const livesMs = expires === null ? null : Math.round(parseDuration(expires, 'expires'))
    return this.#transact((tx) => keys.createKey(tx, { name, role, livesMs, runs, takeover }, this.#author))
  }

  /** Changes what the workers of a key may run, at once and on every server. What is left out stays. */
  async changeKey(id: string, change: { readonly runs: RunScopeOptions }): Promise<KeyView> {
    checkOptions(change, ['runs'], 'change')
    return this.#transact((tx) => keys.changeKey(tx, id, change.runs, this.#author))
  }

  /** Revokes a key, at once and on every server. */
  async revokeKey(id: string, options: RevokeOptions = {}): Promise<keys.RevokedKey> {
    checkOptions(options, ['withSchedules'], 'options')
    const { withSchedules = false } = options
    checkFlag(withSchedules, 'withSchedules')
    return this.#transact((tx) => keys.revokeKey(tx, id, this.#author, { withSchedules }))
  }

  async listRoles(): Promise<RoleView[]> {
    return roles.listRoles(this.#calls)
  }

  async createRole(name: string, permissions: readonly string[]): Promise<RoleView> {
    return this.#transact((tx) => roles.createRole(tx, { name, permissions }, this.#author))
  }

  /** Changes what a role allows, for all keys that have it. */
  async changeRole(name: string, permissions: readonly string[]): Promise<RoleView> {
    return this.#transact((tx) => roles.changeRole(tx, name, permissions, this.#author))
  }

  /** Deletes a role that no key has ever had. */
  async deleteRole(name: string): Promise<void> {
    return this.#transact((tx) => roles.deleteRole(tx, name, this.#author))
  }

  /** A page of the audit, the newest first. It may be short, even empty, and yet be followed: go on from `next`. */
  async readAudit(
    filter: AuditFilter = {},
    page: { readonly before?: string | undefined; readonly limit?: number | undefined } = {},
  ): Promise<AuditPage> {
    return readAudit(this.#calls, filter, page)
  }

  #transact<T>(work: (tx: Queryable) => Promise<T>): Promise<T> {
    return transactWithRetries(this.#db, work)
  }
}
