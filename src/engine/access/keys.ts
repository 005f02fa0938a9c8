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
  /** Whose it is: what jobs and the audit say. Several keys may have the same owner. */
  readonly name: string
  readonly role: string
  /** From now; `null` for a key that lives until it is revoked. */
  readonly livesMs?: number | null | undefined
  /** What its workers may run, for a role with `workers:run`. What is left out allows nothing. */
  readonly runs?: RunScopeOptions | undefined
  /** The name has jobs, schedules or former keys, and the owner of this key is meant to have them. */
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
 * Makes a key.
 *
 * @throws {SluiceError} `ROLE_NOT_FOUND`; `FORBIDDEN` when its role has a permission that the author does not have, or when
 *   its name is in use and the author may neither read all jobs nor takes it over; `INVALID_ARGUMENT`.
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
 * The first key of a database, for an administrator. Nothing when there has been a key before. However many programs
 * ask at once, one of them gets it.
 */
export async function createFirstKey(
  db: Queryable,
  { name = 'admin', livesMs = null }: { readonly name?: string; readonly livesMs?: number | null } = {},
): Promise<{ readonly id: string; readonly key: string } | undefined> {
  const key = newSecret('key')
  const id = await firstKey.createFirstKey(db, name, ADMIN_ROLE, hashOf(key), livesMs)
  return id === null ? undefined : { id, key }
}

/** Keys in the order they were made, revoked and expired ones included. */
export async function listKeys(db: Queryable, after = '0', limit = 1000): Promise<KeyView[]> {
  return keyList.listKeys(db, checkKeyId(after, 'after', true), limit)
}

export async function getKey(db: Queryable, id: string): Promise<KeyView> {
  const key = await keyList.findKey(db, checkKeyId(id, 'id'))
  if (key === undefined) throw keyNotFound(id)
  return key
}

/**
 * Changes what the workers of a key may run. It counts for every request that comes after the commit, on every server: a worker that
 * runs more than that is refused from then on, and others take over its jobs.
 *
 * @throws {SluiceError} `KEY_NOT_FOUND`; `FORBIDDEN` when the key has a permission that the author does not have, or would run more;
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

/** What the workers of a key with this role may run; `null` where it may have none. */
function scopeOf(role: RoleView, given: RunScopeOptions | undefined, before?: RunScope): RunScope | null {
  if (permissionSet(role.permissions).has('workers:run')) return readRunScope(given ?? {}, before)
  if (given === undefined) return null
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `runs: the role ${role.name} runs no workers, so tasks, lanes and pools cannot be named: leave them out, or choose a role with workers:run`,
    { details: { argument: 'runs' } },
  )
}

/**
 * Revokes a key, with the sessions it opened. It counts for every request that comes after the commit, on every server.
 * Revoking a revoked key changes nothing.
 *
 * @param withSchedules Disables the schedules of its owner too, also where the owner has other keys: they would go on
 *   submitting in the name of somebody who was shut out. They are kept for those who investigate or take over.
 *
 * @throws {SluiceError} `KEY_NOT_FOUND`; `FORBIDDEN` when the key has a permission that the author does not have;
 *   `LAST_ADMIN` when nobody would be left who may manage access.
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
 * A key with the name of somebody else reads that one's jobs, and gets what their schedules submit. Only
 * someone who may read everybody's jobs makes it, or says that the name is to be taken over from somebody who has no good key any more.
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
  const ask = 'ask somebody who may read all jobs (jobs:read:all)'
  const ways = live
    ? `take another name, or ${ask}`
    : `take another name, ${ask}, or take the name over (takeover: true, --takeover), which the audit records`
  throw new SluiceError(
    'FORBIDDEN',
    `${JSON.stringify(name)} has ${what}, and everyone with that name sees its jobs: ${ways}`,
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

/** Ids are numbers as text. Whatever else is asked for does not exist; nobody must learn it from the database's complaint. */
export function checkKeyId(id: unknown, argument: string, zero = false): string {
  const pattern = zero ? /^(?:0|[1-9]\d{0,17})$/ : /^[1-9]\d{0,17}$/
  if (typeof id === 'string' && pattern.test(id)) return id
  throw invalidArgument(argument, id, 'the id of a key: a whole number, as text')
}

function keyNotFound(id: string): SluiceError {
  return new SluiceError('KEY_NOT_FOUND', `there is no key ${id}`, { details: { id } })
}
