import { type Queryable, statement } from '../db/database.ts'
import type { RunScope } from '../model/run-scope.ts'

/** A key as it is shown: without anything that opens the door. */
export interface KeyView {
  readonly id: string
  /** Whose it is. */
  readonly name: string
  readonly role: string
  /** What its workers may run; `null` where its role did not let it run any. */
  readonly runs: RunScope | null
  readonly state: 'active' | 'expired' | 'revoked'
  readonly createdAt: Date
  readonly createdBy: string
  readonly expiresAt: Date | null
  /** To the minute; `null`: never. */
  readonly lastUsedAt: Date | null
  readonly revokedAt: Date | null
  readonly revokedBy: string | null
}

const LIST = statement(
  'list_keys',
  `select id, name, role, runs, created_at as "createdAt", created_by as "createdBy", expires_at as "expiresAt",
          last_used_at as "lastUsedAt", revoked_at as "revokedAt", revoked_by as "revokedBy",
          case when revoked_at is not null then 'revoked'
               when expires_at <= statement_timestamp() then 'expired' else 'active' end as state
     from sluice.api_keys where id > $1 and ($2::bigint is null or id = $2) order by id limit $3`,
)

/** Keys in the order they were made, revoked and expired ones included. */
export async function listKeys(db: Queryable, after: string, limit: number): Promise<KeyView[]> {
  return db.run<KeyView & Record<string, unknown>>(LIST, [after, null, limit])
}

export async function findKey(db: Queryable, id: string): Promise<KeyView | undefined> {
  return (await db.run<KeyView & Record<string, unknown>>(LIST, ['0', id, 1]))[0]
}
