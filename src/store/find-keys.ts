import { type Queryable, statement } from '../db/database.ts'
import type { RunScope } from '../model/run-scope.ts'

/** A key that is neither revoked nor expired, with what its role allows. */
export interface LiveKey {
  readonly id: string
  readonly name: string
  readonly role: string
  readonly permissions: readonly string[]
  /** What its workers may run; null: nothing. */
  readonly runs: RunScope | null
  readonly hash: Buffer
  /** It has not been marked as used for a minute. */
  readonly unmarked: boolean
}

const FIND = statement(
  'find_keys',
  `select k.id, k.name, k.role, r.permissions, k.runs, k.hash,
          k.last_used_at is null or k.last_used_at < statement_timestamp() - interval '1 minute' as unmarked
     from sluice.api_keys k join sluice.roles r on r.name = k.role
    where substring(k.hash, 1, 8) = any ($1::bytea[])
      and k.revoked_at is null and (k.expires_at is null or k.expires_at > statement_timestamp())`,
)

/** The live keys whose hashes begin with one of these 8 bytes. The caller compares the rest. */
export async function findKeys(db: Queryable, prefixes: readonly Buffer[]): Promise<LiveKey[]> {
  return db.run<LiveKey & Record<string, unknown>>(FIND, [prefixes])
}
