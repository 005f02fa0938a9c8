import { SluiceError } from '../../errors.ts'
import { missingPermissions, PERMISSION_NAMES, type Permission } from '../../model/permissions.ts'
import { isWithin, NO_SCOPE, type RunScope } from '../../model/run-scope.ts'
import type { AuditEntry } from './audit.ts'

/** Who changes keys, roles and sessions. */
export interface Author {
  readonly name: string
  /** None for whoever changes the database itself, with the command line or a program. */
  readonly keyId?: string | undefined
  readonly permissions: ReadonlySet<Permission>
  /** What workers of the author's own key may run. */
  readonly runs?: RunScope | undefined
  readonly requestId?: string | undefined
  /** Why, in their own words. */
  readonly reason?: string | undefined
}

/** Whoever has the database has everything. */
export function authorOfDatabase(name: string, reason?: string): Author {
  return { name, reason, permissions: new Set(PERMISSION_NAMES) }
}

/**
 * Nobody gives away, takes away or uses up more than they have: a key that may manage access and nothing else would
 * otherwise make itself one that may do anything.
 *
 * @throws {SluiceError} `FORBIDDEN` naming what is missing.
 */
export function checkWithin(author: Author, wanted: ReadonlySet<Permission>, what: string): void {
  const missing = missingPermissions(wanted, author.permissions)
  if (missing.length === 0) return
  throw new SluiceError('FORBIDDEN', `${what} has permissions that you do not have: ${missing.join(', ')}`, {
    details: { missing },
  })
}

/**
 * The same for what the workers of a key may run. Those who manage workers may name anything: they decide about lanes and pools.
 *
 * @throws {SluiceError} `FORBIDDEN`.
 */
export function checkScopeWithin({ permissions, runs = NO_SCOPE }: Author, wanted: RunScope): void {
  if (permissions.has('workers:manage') || isWithin(wanted, runs)) return
  throw new SluiceError(
    'FORBIDDEN',
    'the key would run more than your own key may: name tasks, lanes and pools that yours has, or ask somebody with workers:manage',
    { details: { missing: ['workers:manage'] } },
  )
}

export function entryOf(author: Author, action: string, target: string): AuditEntry {
  const { name, keyId, requestId, reason } = author
  return { actor: name, keyId, requestId, reason, action, target }
}
