import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { checkList, checkText, invalidArgument } from '../../model/argument.ts'
import { isName, NAME_RULE } from '../../model/limits.ts'
import { isPermission, PERMISSION_NAMES, type Permission, permissionSet } from '../../model/permissions.ts'
import * as deletion from '../../store/delete-role.ts'
import type { RoleView } from '../../store/list-roles.ts'
import * as roleList from '../../store/list-roles.ts'
import { lockAccess } from '../../store/lock-access.ts'
import * as saved from '../../store/save-role.ts'
import { checkAdminLeft } from './admin-left.ts'
import { audit } from './audit.ts'
import { type Author, checkWithin, entryOf } from './author.ts'

/** The built-in roles, then the others in order of creation. */
export async function listRoles(db: Queryable): Promise<RoleView[]> {
  return roleList.listRoles(db)
}

/** @throws {SluiceError} `ROLE_NOT_FOUND`, which names the existing roles. */
export async function getRole(db: Queryable, name: string): Promise<RoleView> {
  const role = isName(name) ? await roleList.findRole(db, name) : undefined
  if (role !== undefined) return role
  const names = (await roleList.listRoles(db)).map((each) => each.name)
  throw new SluiceError(
    'ROLE_NOT_FOUND',
    `role ${JSON.stringify(name.slice(0, 100))} does not exist; existing roles: ${names.slice(0, 50).join(', ')}`,
    { details: { name: name.slice(0, 100) } },
  )
}

/**
 * Creates a role from permissions that the author has.
 *
 * @throws {SluiceError} `FORBIDDEN`; `ROLE_CONFLICT` when the name is taken; `INVALID_ARGUMENT`.
 */
export async function createRole(
  tx: Queryable,
  wanted: { readonly name: string; readonly permissions: readonly string[] },
  author: Author,
): Promise<RoleView> {
  const name = checkText(wanted.name, 'name')
  if (!isName(name)) throw invalidArgument('name', name, NAME_RULE)
  const permissions = checkPermissions(wanted.permissions)
  checkWithin(author, new Set(permissions), `the role ${name}`)
  await lockAccess(tx)
  if (!(await saved.insertRole(tx, name, permissions, author.name)))
    throw roleConflict(`role ${name} already exists: choose another name, or change that role`, name)
  await audit(tx, { ...entryOf(author, 'role.create', `role ${name}`), after: { permissions } })
  return getRole(tx, name)
}

/**
 * Changes the permissions of a role. It applies to the next request of every key that has it.
 *
 * @throws {SluiceError} `ROLE_NOT_FOUND`; `ROLE_CONFLICT` for a built-in role; `FORBIDDEN` when the role has, or would
 *   have, a permission that the author lacks; `LAST_ADMIN`.
 */
export async function changeRole(
  tx: Queryable,
  name: string,
  wanted: readonly string[],
  author: Author,
): Promise<RoleView> {
  const permissions = checkPermissions(wanted)
  const before = await lockChangeable(tx, name, author)
  checkWithin(author, new Set(permissions), `the role ${name}`)
  await saved.changeRole(tx, name, permissions, author.name)
  const lost = before.permissions.includes('access:manage') && !permissions.includes('access:manage')
  if (lost) await checkAdminLeft(tx)
  await audit(tx, {
    ...entryOf(author, 'role.change', `role ${name}`),
    before: { permissions: before.permissions },
    after: { permissions },
  })
  return getRole(tx, name)
}

/** @throws {SluiceError} `ROLE_NOT_FOUND`; `ROLE_CONFLICT` for a built-in role or one that keys use; `FORBIDDEN`. */
export async function deleteRole(tx: Queryable, name: string, author: Author): Promise<void> {
  const before = await lockChangeable(tx, name, author)
  if (!(await deletion.deleteRole(tx, name)))
    throw roleConflict(
      `keys with the role ${name} exist, valid or revoked, and their record refers to it`,
      name,
    )
  await audit(tx, {
    ...entryOf(author, 'role.delete', `role ${name}`),
    before: { permissions: before.permissions },
  })
}

async function lockChangeable(tx: Queryable, name: string, author: Author): Promise<RoleView> {
  await lockAccess(tx)
  const role = await getRole(tx, name)
  if (role.builtIn)
    throw roleConflict(`the role ${name} is built in and cannot be changed: create your own role`, name)
  checkWithin(author, permissionSet(role.permissions), `the role ${name}`)
  return role
}

/** In the order of `PERMISSION_NAMES`, each once, with what they imply. */
function checkPermissions(wanted: readonly string[]): readonly Permission[] {
  const list = checkList(wanted, 'permissions', (item, name) => {
    const text = checkText(item, name)
    if (!isPermission(text)) throw invalidArgument(name, text, `one of ${PERMISSION_NAMES.join(', ')}`)
    return text
  })
  if (list.length === 0)
    throw invalidArgument('permissions', wanted, `at least one of ${PERMISSION_NAMES.join(', ')}`)
  const set = permissionSet(list)
  return PERMISSION_NAMES.filter((each) => set.has(each))
}

function roleConflict(message: string, name: string): SluiceError {
  return new SluiceError('ROLE_CONFLICT', message, { details: { name } })
}
