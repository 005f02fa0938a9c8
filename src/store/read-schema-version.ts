import { type Queryable, statement } from '../db/database.ts'

const READ = statement(
  'read_schema_version',
  'select max(version) as applied, max(compatible_since) as "compatibleSince" from sluice.migrations',
)

/** The last migration that was applied, and the version of the oldest program that may use the database. */
export async function readSchemaVersion(
  db: Queryable,
): Promise<{ readonly applied: number; readonly compatibleSince: number }> {
  const [row] = await db.run<{ applied: number | null; compatibleSince: number | null }>(READ)
  return { applied: row?.applied ?? 0, compatibleSince: row?.compatibleSince ?? 0 }
}
