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
  /** The owner name: jobs and the audit log show it. Keys with the same owner share their jobs. */
  readonly name: string
  readonly role: string
  /** How long the key is valid. Default: until it is revoked. */
  readonly expires?: Duration | null
  /**
   * What its workers may run, for a role with `workers:run`. Fields that are left out permit nothing; `'*'` permits
   * everything.
   */
  readonly runs?: RunScopeOptions
  /**
   * Required if the name has jobs, schedules or former keys, to confirm that the new key takes them over. The audit
   * log records it.
   */
  readonly takeover?: boolean
}

export interface RevokeOptions {
  /** Also disables the schedules of the key's owner, even if the owner has other keys. They are kept. */
  readonly withSchedules?: boolean
}

const PAGE = 1000

/**
 * API keys, roles and the audit log. A program with access to the database may do all of it; the audit log names its
 * `actor`.
 */
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

  /** All keys, including revoked and expired ones. */
  async listKeys(): Promise<KeyView[]> {
    const found: KeyView[] = []
    for (;;) {
      const page = await keys.listKeys(this.#calls, found.at(-1)?.id, PAGE)
      found.push(...page)
      if (page.length < PAGE) return found
    }
  }

  /** Creates a key. It is shown only once, in the result. */
  async createKey(options: KeyOptions): Promise<keys.CreatedKey> {
    checkOptions(options, ['name', 'role', 'expires', 'runs', 'takeover'], 'options')
    const { name, role, expires = null, runs, takeover } = options
    if (takeover !== undefined) checkFlag(takeover, 'takeover')
    const livesMs = expires === null ? null : Math.round(parseDuration(expires, 'expires'))
    return this.#transact((tx) => keys.createKey(tx, { name, role, livesMs, runs, takeover }, this.#author))
  }

  /**
   * Changes what the key's workers may run, immediately and on every server. Fields that are left out keep their
   * value.
   */
  async changeKey(id: string, change: { readonly runs: RunScopeOptions }): Promise<KeyView> {
    checkOptions(change, ['runs'], 'change')
    return this.#transact((tx) => keys.changeKey(tx, id, change.runs, this.#author))
  }

  /** Revokes a key, immediately and on every server. */
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

  /** Changes the permissions of a role, for all keys that have it. */
  async changeRole(name: string, permissions: readonly string[]): Promise<RoleView> {
    return this.#transact((tx) => roles.changeRole(tx, name, permissions, this.#author))
  }

  /** Deletes a role that no key has ever had. */
  async deleteRole(name: string): Promise<void> {
    return this.#transact((tx) => roles.deleteRole(tx, name, this.#author))
  }

  /**
   * A page of the audit log, newest first. A page may be short or empty although more follow: continue from `next`.
   */
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
