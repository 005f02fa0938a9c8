import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { checkText, checkWhole, invalidArgument } from '../../model/argument.ts'
import { toStorableText } from '../../model/json.ts'
import { MAX_OWNER, MAX_STORED_MS } from '../../model/limits.ts'
import { ADMIN_ROLE, permissionSet } from '../../model/permissions.ts'
import { NO_SCOPE, type RunScope, type RunScopeOptions, readRunScope } from '../../model/run-scope.ts'
import * as change from '../../store/change-key.ts'
import * as firstKey from '../../store/create-first-key.ts'
import { findNameUse } from '../../store/find-name-use.ts'
import { insertKey } from '../../store/insert-key.ts'
import type { KeyView } from '../../store/list-keys.ts'
import * as keyList from '../../store/list-keys.ts'
import type { RoleView } from '../../store/list-roles.ts'
import { lockAccess } from '../../store/lock-access.ts'
import { pauseSchedules } from '../../store/pause-schedules.ts'
import * as revocation from '../../store/revoke-key.ts'
import { checkAdminLeft } from './admin-left.ts'
import { audit } from './audit.ts'
import { type Author, checkScopeWithin, checkWithin, entryOf } from './author.ts'
import { getRole } from './roles.ts'
import { hashOf, newSecret } from './secret.ts'

export interface NewKey {
  /** The owner, as shown by jobs and the audit log. Several keys may have the same owner. */
  readonly name: string
  readonly role: string
  /** The lifetime from now. `null` for a key that is valid until it is revoked. */
  readonly livesMs?: number | null | undefined
  /** What its workers may run, for a role with `workers:run`. Fields that are left out permit nothing. */
  readonly runs?: RunScopeOptions | undefined
  /** Confirms that the new key takes over the jobs, schedules or former keys of this name. */
  readonly takeover?: boolean | undefined
}

export interface CreatedKey extends KeyView {
  /** The key itself. It cannot be shown again. */
  readonly key: string
}

export interface RevokedKey extends KeyView {
  /** The schedules of its owner that were disabled with it. */
  readonly pausedSchedules: readonly string[]
}

/**
 * Creates a key.
 *
 * @throws {SluiceError} `ROLE_NOT_FOUND`; `FORBIDDEN` when its role has a permission that the author lacks, or when
 *   its name is in use and the author may not read all jobs and does not take it over; `INVALID_ARGUMENT`.
 */
export async function createKey(tx: Queryable, wanted: NewKey, author: Author): Promise<CreatedKey> {
  const name = checkName(wanted.name)
  const livesMs = wanted.livesMs ?? null
  if (livesMs !== null) checkWhole(livesMs, 'expires', 1, MAX_STORED_MS)
  await lockAccess(tx)
  const role = await getRole(tx, checkText(wanted.role, 'role'))
  checkWithin(author, permissionSet(role.permissions), `the role ${role.name}`)
  const takeover = await checkOwner(tx, name, author, wanted.takeover === true)
  const runs = scopeOf(role, wanted.runs)
  if (runs !== null) checkScopeWithin(author, runs)
  const key = newSecret('key')
  const id = await insertKey(tx, {
    name,
    role: role.name,
    hash: hashOf(key),
    createdBy: author.name,
    livesMs,
    runs,
  })
  const view = await getKey(tx, id)
  const { expiresAt } = view
  await audit(tx, {
    ...entryOf(author, 'key.create', `key ${id}`),
    after: {
      name,
      role: role.name,
      expiresAt,
      ...(wanted.runs !== undefined && { runs }),
      ...(takeover && { takeover }),
    },
  })
  return { ...view, key }
}

/**
 * Creates the first key of a database, for an administrator. Does nothing if there ever was a key. If several programs
 * call it at once, one of them gets the key.
 */
export async function createFirstKey(
  db: Queryable,
  { name = 'admin', livesMs = null }: { readonly name?: string; readonly livesMs?: number | null } = {},
): Promise<{ readonly id: string; readonly key: string } | undefined> {
  const key = newSecret('key')
  const id = await firstKey.createFirstKey(db, name, ADMIN_ROLE, hashOf(key), livesMs)
  return id === null ? undefined : { id, key }
}

/** All keys in order of creation, including revoked and expired ones. */
export async function listKeys(db: Queryable, after = '0', limit = 1000): Promise<KeyView[]> {
  return keyList.listKeys(db, checkKeyId(after, 'after', true), limit)
}

export async function getKey(db: Queryable, id: string): Promise<KeyView> {
  const key = await keyList.findKey(db, checkKeyId(id, 'id'))
  if (key === undefined) throw keyNotFound(id)
  return key
}

/**
 * Changes what the workers of a key may run. It applies to every request after the commit, on every server: a worker
 * that runs more is rejected from then on, and others take over its jobs.
 *
 * @throws {SluiceError} `KEY_NOT_FOUND`; `FORBIDDEN` when the key has a permission that the author lacks, or would
 * permit more;
 *   `INVALID_ARGUMENT`.
 */
export async function changeKey(
  tx: Queryable,
  id: string,
  given: RunScopeOptions,
  author: Author,
): Promise<KeyView> {
  await lockAccess(tx)
  const before = await getKey(tx, id)
  const role = await getRole(tx, before.role)
  checkWithin(author, permissionSet(role.permissions), `key ${id}`)
  const runs = scopeOf(role, given, before.runs ?? NO_SCOPE)
  if (runs !== null) {
    checkScopeWithin(author, runs)
    await change.changeKey(tx, id, runs)
  }
  await audit(tx, {
    ...entryOf(author, 'key.change', `key ${id}`),
    before: { runs: before.runs },
    after: { runs },
  })
  return getKey(tx, id)
}

/** What the workers of a key with this role may run. `null` if the role permits none. */
function scopeOf(role: RoleView, given: RunScopeOptions | undefined, before?: RunScope): RunScope | null {
  if (permissionSet(role.permissions).has('workers:run')) return readRunScope(given ?? {}, before)
  if (given === undefined) return null
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `runs: the role ${role.name} runs no workers, so tasks, lanes and pools do not apply: leave them out, or choose a role with workers:run`,
    { details: { argument: 'runs' } },
  )
}

/**
 * Revokes a key and its sessions. It applies to every request after the commit, on every server. Revoking a revoked
 * key changes nothing.
 *
 * @param withSchedules Also disables the schedules of its owner, even if the owner has other keys, because they would
 *   continue to submit for an owner without access. They are kept, for investigation or a takeover.
 *
 * @throws {SluiceError} `KEY_NOT_FOUND`; `FORBIDDEN` when the key has a permission that the author lacks;
 *   `LAST_ADMIN` when no key that can manage access would be left.
 */
export async function revokeKey(
  tx: Queryable,
  id: string,
  author: Author,
  { withSchedules = false }: { readonly withSchedules?: boolean } = {},
): Promise<RevokedKey> {
  await lockAccess(tx)
  const before = await getKey(tx, id)
  if (before.state === 'revoked' && !withSchedules) return { ...before, pausedSchedules: [] }
  const role = await getRole(tx, before.role)
  checkWithin(author, permissionSet(role.permissions), `key ${id}`)
  const pausedSchedules = withSchedules ? await pauseSchedules(tx, before.name, author.name) : []
  for (const name of pausedSchedules) {
    await audit(tx, {
      ...entryOf(author, 'schedule.change', `schedule ${name}`),
      before: { enabled: true },
      after: { enabled: false },
    })
  }
  if (before.state === 'revoked') return { ...before, pausedSchedules }
  await revocation.revokeKey(tx, id, author.name)
  if (before.state === 'active' && role.permissions.includes('access:manage')) await checkAdminLeft(tx)
  const after = await getKey(tx, id)
  await audit(tx, {
    ...entryOf(author, 'key.revoke', `key ${id}`),
    before: { name: before.name, role: before.role, state: before.state },
    after: { state: after.state },
  })
  return { ...after, pausedSchedules }
}

/**
 * A key with the name of another owner reads that owner's jobs and those of their schedules. It requires permission to
 * read all jobs, or an explicit takeover from an owner without a valid key.
 *
 * @returns Whether the name is taken over.
 * @throws {SluiceError} `FORBIDDEN`
 */
async function checkOwner(tx: Queryable, name: string, author: Author, takeover: boolean): Promise<boolean> {
  if (name === author.name) return false
  const { live, past, jobs, schedules } = await findNameUse(tx, name)
  if (!live && !past && !jobs && !schedules) return false
  if (takeover && !live) return true
  if (author.permissions.has('jobs:read:all')) return takeover
  const what = live
    ? 'a key that is in use'
    : listOf([jobs && 'jobs', schedules && 'schedules', past && 'former keys'])
  const ask = 'ask a caller who may read all jobs (jobs:read:all)'
  const ways = live
    ? `use another name, or ${ask}`
    : `use another name, ${ask}, or take the name over (takeover: true, --takeover), which the audit log records`
  throw new SluiceError(
    'FORBIDDEN',
    `${JSON.stringify(name)} has ${what}, and every key with that name can read its jobs: ${ways}`,
    { details: { missing: ['jobs:read:all'] } },
  )
}

function listOf(words: readonly (string | false)[]): string {
  return words.filter((word) => word !== false).join(' and ')
}

function checkName(value: unknown): string {
  const name = checkText(value, 'name', { max: MAX_OWNER })
  if (name.trim() !== name || toStorableText(name, MAX_OWNER) !== name || /\p{Cc}/u.test(name))
    throw invalidArgument('name', name, 'a text without control characters or space around it')
  return name
}

/** Ids are numbers as text. Anything else does not exist, and the database's error must not reach the caller. */
export function checkKeyId(id: unknown, argument: string, zero = false): string {
  const pattern = zero ? /^(?:0|[1-9]\d{0,17})$/ : /^[1-9]\d{0,17}$/
  if (typeof id === 'string' && pattern.test(id)) return id
  throw invalidArgument(argument, id, 'the id of a key: a whole number, as text')
}

function keyNotFound(id: string): SluiceError {
  return new SluiceError('KEY_NOT_FOUND', `key ${id} does not exist`, { details: { id } })
}
