import { type Queryable, statement } from '../db/database.ts'

const REVOKE = statement(
  'revoke_key',
  `update sluice.api_keys set revoked_at = statement_timestamp(), revoked_by = $2 where id = $1 and revoked_at is null
   returning id`,
)

/** False when it was revoked before, or never existed. */
export async function revokeKey(tx: Queryable, id: string, by: string): Promise<boolean> {
  return (await tx.run(REVOKE, [id, by])).length > 0
}
