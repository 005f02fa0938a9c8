import { type Permission, permissionSet } from '../../model/permissions.ts'

/** Who makes a request: a key, or a browser that signed in with one. */
export interface Caller {
  readonly keyId: string
  /** Whose key it is: what jobs and the audit say. */
  readonly name: string
  readonly role: string
  readonly permissions: ReadonlySet<Permission>
  may(permission: Permission): boolean
}

export function toCaller(key: {
  readonly id: string
  readonly name: string
  readonly role: string
  readonly permissions: readonly string[]
}): Caller {
  const permissions = permissionSet(key.permissions)
  return {
    keyId: key.id,
    name: key.name,
    role: key.role,
    permissions,
    may: (permission) => permissions.has(permission),
  }
}
