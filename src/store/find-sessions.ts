import { type Queryable, statement } from '../db/database.ts'
import type { RunScope } from '../model/run-scope.ts'

/** A session that has not ended, of a key that is good. */
export interface LiveSession {
  readonly sessionId: string
  readonly hash: Buffer
  readonly expiresAt: Date
  /** Of the key. */
  readonly id: string
  readonly name: string
  readonly role: string
  readonly permissions: readonly string[]
  /** What its workers may run; null: nothing. */
  readonly runs: RunScope | null
}

const FIND = statement(
  'find_sessions',
  `select s.id as "sessionId", s.hash, s.expires_at as "expiresAt", k.id, k.name, k.role, r.permissions, k.runs
     from sluice.sessions s join sluice.api_keys k on k.id = s.key_id join sluice.roles r on r.name = k.role
    where substring(s.hash, 1, 8) = $1 and s.expires_at > statement_timestamp()
      and k.revoked_at is null and (k.expires_at is null or k.expires_at > statement_timestamp())`,
)

/** The live sessions whose hashes begin with these 8 bytes. The caller compares the rest. */
export async function findSessions(db: Queryable, prefix: Buffer): Promise<LiveSession[]> {
  return db.run<LiveSession & Record<string, unknown>>(FIND, [prefix])
}
