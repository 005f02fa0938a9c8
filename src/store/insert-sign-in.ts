import { type Queryable, statement } from '../db/database.ts'

const INSERT = statement(
  'insert_sign_in',
  `insert into sluice.sign_ins (hash, key_id, expires_at)
   values ($1, $2, statement_timestamp() + make_interval(secs => $3::float8 / 1000))`,
)

/** Stores a token that opens one session for a key. */
export async function insertSignIn(
  tx: Queryable,
  hash: Buffer,
  keyId: string,
  livesMs: number,
): Promise<void> {
  await tx.run(INSERT, [hash, keyId, livesMs])
}
