import { type Queryable, statement } from '../db/database.ts'
import type { RunScope } from '../model/run-scope.ts'

const INSERT = statement(
  'insert_key',
  `insert into sluice.api_keys (name, role, hash, created_by, expires_at, runs)
   values ($1, $2, $3, $4, statement_timestamp() + make_interval(secs => $5::float8 / 1000), $6) returning id`,
)

/** Stores a key that lives for `livesMs`, or until it is revoked. */
export async function insertKey(
  tx: Queryable,
  key: {
    name: string
    role: string
    hash: Buffer
    createdBy: string
    livesMs: number | null
    runs: RunScope | null
  },
): Promise<string> {
  const { name, role, hash, createdBy, livesMs, runs } = key
  const values = [name, role, hash, createdBy, livesMs, runs === null ? null : JSON.stringify(runs)]
  return (await tx.run<{ id: string }>(INSERT, values))[0]!.id
}
