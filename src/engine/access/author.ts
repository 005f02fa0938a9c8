import { SluiceError } from '../../errors.ts'
import { missingPermissions, PERMISSION_NAMES, type Permission } from '../../model/permissions.ts'
import { isWithin, NO_SCOPE, type RunScope } from '../../model/run-scope.ts'
import type { AuditEntry } from './audit.ts'

/** The author of a change of keys, roles or sessions. */
export interface Author {
  readonly name: string
  /** Absent for a direct change of the database, by the command line or a program. */
  readonly keyId?: string | undefined
  readonly permissions: ReadonlySet<Permission>
  /** What workers of the author's own key may run. */
  readonly runs?: RunScope | undefined
  readonly requestId?: string | undefined
  /** The reason that the author gave. */
  readonly reason?: string | undefined
}

/** A program with access to the database has all permissions. */
export function authorOfDatabase(name: string, reason?: string): Author {
  return { name, reason, permissions: new Set(PERMISSION_NAMES) }
}

/**
 * Ensures that authors only give, take and use what they have. Otherwise a key that may only manage access could give
 * itself every permission.
 *
 * @throws {SluiceError} `FORBIDDEN`, which names what is missing.
 */
export function checkWithin(author: Author, wanted: ReadonlySet<Permission>, what: string): void {
  const missing = missingPermissions(wanted, author.permissions)
  if (missing.length === 0) return
  throw new SluiceError('FORBIDDEN', `${what} has permissions that you do not have: ${missing.join(', ')}`, {
    details: { missing },
  })
}

/**
 * The same for what the workers of a key may run. Authors who manage workers may name anything, because they control
 * lanes and pools.
 *
 * @throws {SluiceError} `FORBIDDEN`.
 */
export function checkScopeWithin({ permissions, runs = NO_SCOPE }: Author, wanted: RunScope): void {
  if (permissions.has('workers:manage') || isWithin(wanted, runs)) return
  throw new SluiceError(
    'FORBIDDEN',
    'the key would permit more than your own key: name tasks, lanes and pools that your key permits, or ask an operator with workers:manage',
    { details: { missing: ['workers:manage'] } },
  )
}

export function entryOf(author: Author, action: string, target: string): AuditEntry {
  const { name, keyId, requestId, reason } = author
  return { actor: name, keyId, requestId, reason, action, target }
}
