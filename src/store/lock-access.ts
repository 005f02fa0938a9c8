import { type Queryable, statement } from '../db/database.ts'

const LOCK = statement('lock_access', 'lock table sluice.api_keys in share row exclusive mode')

/**
 * Lets one transaction at a time change keys and roles; reading goes on. What one of them checked stays true until it
 * commits: that an administrator is left, that a role is not in use. Comes before every other lock.
 */
export async function lockAccess(tx: Queryable): Promise<void> {
  await tx.run(LOCK)
}
