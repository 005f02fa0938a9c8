import { type Queryable, statement } from '../db/database.ts'

const INSERT = statement(
  'insert_key',
  `insert into sluice.api_keys (name, role, hash, created_by, expires_at)
   values ($1, $2, $3, $4, statement_timestamp() + make_interval(secs => $5::float8 / 1000)) returning id`,
)

/** Stores a key that lives for `livesMs`, or until it is revoked. */
export async function insertKey(
  tx: Queryable,
  key: { name: string; role: string; hash: Buffer; createdBy: string; livesMs: number | null },
): Promise<string> {
  const { name, role, hash, createdBy, livesMs } = key
  return (await tx.run<{ id: string }>(INSERT, [name, role, hash, createdBy, livesMs]))[0]!.id
}
