import { type Queryable, statement } from '../db/database.ts'

const FIND = statement(
  'find_admin',
  `select k.id from sluice.api_keys k join sluice.roles r on r.name = k.role
    where k.revoked_at is null and (k.expires_at is null or k.expires_at > statement_timestamp()) and $1 = any (r.permissions)
    order by k.expires_at desc nulls first, k.id limit 1`,
)

/** A live key whose role has this permission: the oldest of those that live longest. */
export async function findAdmin(db: Queryable, permission: string): Promise<string | undefined> {
  return (await db.run<{ id: string }>(FIND, [permission]))[0]?.id
}
