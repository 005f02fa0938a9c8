import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { findAdmin } from '../../store/find-admin.ts'

/**
 * Refuses a change after which nobody could manage access over HTTP. Call it after the change, in its transaction and
 * under the lock: what it refuses is undone, and two who would remove each other come one after the other.
 *
 * @throws {SluiceError} `LAST_ADMIN`
 */
export async function checkAdminLeft(tx: Queryable): Promise<void> {
  if ((await findAdmin(tx, 'access:manage')) !== undefined) return
  throw new SluiceError(
    'LAST_ADMIN',
    'no key would be left that may manage access: make another one with access:manage first',
  )
}
