import { AuditList, type AuditQuery } from '../api/audit.ts'
import {
  CreatedKeyBody,
  KeyBody,
  type KeyChangeBody,
  KeyList,
  type NewKeyBody,
  RevokedKeyBody,
} from '../api/keys.ts'
import { RoleBody, RoleList } from '../api/roles.ts'
import { SessionBody } from '../api/session.ts'
import { type Dated, dated } from './dated.ts'
import { type Link, segment } from './link.ts'

export type Key = Dated<KeyBody>
export type CreatedKey = Dated<CreatedKeyBody>
export type RevokedKey = Dated<RevokedKeyBody>
export type Role = Dated<RoleBody>
export type AuditPage = Dated<AuditList>
/** A session of a caller, with its permissions. */
export type Session = Dated<SessionBody>

/** The filter of the audit log, with dates as `Date`. */
export type AuditFilter = Omit<Dated<AuditQuery>, 'before' | 'limit'>

export interface RevokeOptions {
  /** Also disables the schedules of the key's owner, even if the owner has other keys. They are kept. */
  readonly withSchedules?: boolean
}

const PAGE = 1000

/** Sessions; and for callers with `access:manage`, keys, roles and the audit log. */
export class AccessClient {
  readonly #link: Link

  /** @internal */
  constructor(link: Link) {
    this.#link = link
  }

  /** Opens a session in a browser, which then sends its cookie automatically. A token is valid for one session. */
  async signIn(secret: { readonly key: string } | { readonly token: string }): Promise<Session> {
    return dated(SessionBody, await this.#link.call<SessionBody>('POST', '/session', { body: secret }))
  }

  /** The owner and permissions of this key or session. For a session, also the `csrfToken` that changes need. */
  async session(): Promise<Session> {
    return dated(SessionBody, await this.#link.call<SessionBody>('GET', '/session'))
  }

  /** Ends the session of this browser. */
  async signOut(): Promise<void> {
    await this.#link.call('DELETE', '/session')
  }

  /** All keys, including revoked and expired ones. */
  async listKeys(): Promise<Key[]> {
    const found: Key[] = []
    let after: string | undefined
    do {
      const query = { after, limit: PAGE }
      const page = dated(KeyList, await this.#link.call<KeyList>('GET', '/keys', { query }))
      found.push(...page.keys)
      after = page.next ?? undefined
    } while (after !== undefined)
    return found
  }

  /** Creates a key. It is shown only once, in the result. */
  async createKey(wanted: NewKeyBody): Promise<CreatedKey> {
    return dated(CreatedKeyBody, await this.#link.call<CreatedKeyBody>('POST', '/keys', { body: wanted }))
  }

  /**
   * Changes what the key's workers may run, immediately and on every server. Fields that are left out keep their
   * value.
   */
  async changeKey(id: string, change: KeyChangeBody): Promise<Key> {
    const path = `/keys/${segment(id, 'id')}`
    return dated(KeyBody, await this.#link.call<KeyBody>('PATCH', path, { body: change }))
  }

  /** Revokes a key, immediately and on every server. `withSchedules` also disables the schedules of its owner. */
  async revokeKey(id: string, { withSchedules = false }: RevokeOptions = {}): Promise<RevokedKey> {
    const query = withSchedules ? { withSchedules } : {}
    const path = `/keys/${segment(id, 'id')}`
    return dated(RevokedKeyBody, await this.#link.call<RevokedKeyBody>('DELETE', path, { query }))
  }

  async listRoles(): Promise<Role[]> {
    return dated(RoleList, await this.#link.call<RoleList>('GET', '/roles')).roles
  }

  /** Creates a role from permissions that the caller has. */
  async createRole(name: string, permissions: readonly string[]): Promise<Role> {
    return dated(RoleBody, await this.#link.call<RoleBody>('POST', '/roles', { body: { name, permissions } }))
  }

  /** Changes the permissions of a role, for all keys that have it. */
  async changeRole(name: string, permissions: readonly string[]): Promise<Role> {
    const path = `/roles/${segment(name, 'name')}`
    return dated(RoleBody, await this.#link.call<RoleBody>('PATCH', path, { body: { permissions } }))
  }

  /** Deletes a role that no key has ever had. */
  async deleteRole(name: string): Promise<void> {
    await this.#link.call('DELETE', `/roles/${segment(name, 'name')}`)
  }

  /**
   * A page of the audit log, newest first. A page may be short or empty although more follow: continue from `next`.
   */
  async readAudit(
    filter: AuditFilter = {},
    page: { readonly before?: string | undefined; readonly limit?: number | undefined } = {},
  ): Promise<AuditPage> {
    const { since, until, ...rest } = filter
    const query = { ...rest, since: since?.toISOString(), until: until?.toISOString(), ...page }
    return dated(AuditList, await this.#link.call<AuditList>('GET', '/audit', { query }))
  }
}
