import { type Queryable, statement } from '../db/database.ts'

const FIND = statement(
  'find_owners',
  `select id::text as id, submitted_by from sluice.job_data where id = any ($1::bigint[])`,
)

/** Whose jobs these are, by their ids. Those that are gone are not in it. */
export async function findOwners(
  db: Queryable,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string | null>> {
  const rows = await db.run<{ id: string; submitted_by: string | null }>(FIND, [ids])
  return new Map(rows.map(({ id, submitted_by }) => [id, submitted_by]))
}
