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
/** Who somebody is and what they may do. */
export type Session = Dated<SessionBody>

/** What to look for in the audit, with dates for moments. */
export type AuditFilter = Omit<Dated<AuditQuery>, 'before' | 'limit'>

export interface RevokeOptions {
  /** Disables the schedules of its owner too, also where the owner has other keys. They are kept. */
  readonly withSchedules?: boolean
}

const PAGE = 1000

/** Sessions; and keys, roles and the audit, for whoever has `access:manage`. */
export class AccessClient {
  readonly #link: Link

  /** @internal */
  constructor(link: Link) {
    this.#link = link
  }

  /** Opens a session in a browser, whose cookie travels from then on by itself. A token is good for one. */
  async signIn(secret: { readonly key: string } | { readonly token: string }): Promise<Session> {
    return dated(SessionBody, await this.#link.call<SessionBody>('POST', '/session', { body: secret }))
  }

  /** Whose key or session this is, and what it may do; of a session with the `csrfToken` that changes need. */
  async session(): Promise<Session> {
    return dated(SessionBody, await this.#link.call<SessionBody>('GET', '/session'))
  }

  /** Ends the session of this browser. */
  async signOut(): Promise<void> {
    await this.#link.call('DELETE', '/session')
  }

  /** All keys, revoked and expired ones included. */
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

  /** Makes a key. The answer is the only time it is shown. */
  async createKey(wanted: NewKeyBody): Promise<CreatedKey> {
    return dated(CreatedKeyBody, await this.#link.call<CreatedKeyBody>('POST', '/keys', { body: wanted }))
  }

  /** Changes what the workers of a key may run, at once and on every server. What is left out stays. */
  async changeKey(id: string, change: KeyChangeBody): Promise<Key> {
    const path = `/keys/${segment(id, 'id')}`
    return dated(KeyBody, await this.#link.call<KeyBody>('PATCH', path, { body: change }))
  }

  /** Revokes a key, at once and on every server. `withSchedules` disables the schedules of its owner too. */
  async revokeKey(id: string, { withSchedules = false }: RevokeOptions = {}): Promise<RevokedKey> {
    const query = withSchedules ? { withSchedules } : {}
    const path = `/keys/${segment(id, 'id')}`
    return dated(RevokedKeyBody, await this.#link.call<RevokedKeyBody>('DELETE', path, { query }))
  }

  async listRoles(): Promise<Role[]> {
    return dated(RoleList, await this.#link.call<RoleList>('GET', '/roles')).roles
  }

  /** Makes a role of permissions that the caller has. */
  async createRole(name: string, permissions: readonly string[]): Promise<Role> {
    return dated(RoleBody, await this.#link.call<RoleBody>('POST', '/roles', { body: { name, permissions } }))
  }

  /** Changes what a role allows, for all keys that have it. */
  async changeRole(name: string, permissions: readonly string[]): Promise<Role> {
    const path = `/roles/${segment(name, 'name')}`
    return dated(RoleBody, await this.#link.call<RoleBody>('PATCH', path, { body: { permissions } }))
  }

  /** Deletes a role that no key has ever had. */
  async deleteRole(name: string): Promise<void> {
    await this.#link.call('DELETE', `/roles/${segment(name, 'name')}`)
  }

  /** A page of the audit, the newest first. It may be short, even empty, and yet be followed: go on from `next`. */
  async readAudit(
    filter: AuditFilter = {},
    page: { readonly before?: string | undefined; readonly limit?: number | undefined } = {},
  ): Promise<AuditPage> {
    const { since, until, ...rest } = filter
    const query = { ...rest, since: since?.toISOString(), until: until?.toISOString(), ...page }
    return dated(AuditList, await this.#link.call<AuditList>('GET', '/audit', { query }))
  }
}
