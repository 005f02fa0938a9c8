import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { findAdmin } from '../../store/find-admin.ts'

/**
 * Rejects a change that would leave no key that can manage access over HTTP. Call it after the change, in its
 * transaction and under the lock: a rejected change is rolled back, and two keys that would remove each other are
 * serialized.
 *
 * @throws {SluiceError} `LAST_ADMIN`
 */
export async function checkAdminLeft(tx: Queryable): Promise<void> {
  if ((await findAdmin(tx, 'access:manage')) !== undefined) return
  throw new SluiceError(
    'LAST_ADMIN',
    'no key with permission to manage access would be left: create another one with access:manage first',
  )
}
