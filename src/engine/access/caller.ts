import { type Permission, permissionSet } from '../../model/permissions.ts'
import { NO_SCOPE, type RunScope } from '../../model/run-scope.ts'

/** The author of a request: a key, or a browser that signed in with one. */
export interface Caller {
  readonly keyId: string
  /** The owner, as shown by jobs and the audit log. */
  readonly name: string
  readonly role: string
  readonly permissions: ReadonlySet<Permission>
  /** What its workers may run. */
  readonly runs: RunScope
  may(permission: Permission): boolean
}

export function toCaller(key: {
  readonly id: string
  readonly name: string
  readonly role: string
  readonly permissions: readonly string[]
  readonly runs: RunScope | null
}): Caller {
  const permissions = permissionSet(key.permissions)
  return {
    keyId: key.id,
    name: key.name,
    role: key.role,
    permissions,
    runs: key.runs ?? NO_SCOPE,
    may: (permission) => permissions.has(permission),
  }
}
