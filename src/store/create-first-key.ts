import { type Queryable, statement } from '../db/database.ts'

const CREATE = statement('create_first_key', 'select sluice.create_first_key_v1($1, $2, $3, $4) as id')

/** The id of the first key of this database, or `null` when there has been one before. */
export async function createFirstKey(
  db: Queryable,
  name: string,
  role: string,
  hash: Buffer,
  livesMs: number | null,
): Promise<string | null> {
  return (await db.run<{ id: string | null }>(CREATE, [name, role, hash, livesMs]))[0]!.id
}
