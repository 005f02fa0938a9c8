import { type Queryable, statement } from '../db/database.ts'

const READ = statement('read_schema_version', 'select max(version) as version from sluice.migrations')

/** The last migration that was applied. */
export async function readSchemaVersion(db: Queryable): Promise<number> {
  return (await db.run<{ version: number | null }>(READ))[0]?.version ?? 0
}
