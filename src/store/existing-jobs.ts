import { type Queryable, statement } from '../db/database.ts'

const EXISTING = statement('existing_jobs', 'select id from sluice.jobs where id = any ($1)')

/** Those of the given ids that are jobs. */
export async function existingJobs(db: Queryable, ids: readonly string[]): Promise<Set<string>> {
  return new Set((await db.run<{ id: string }>(EXISTING, [ids])).map((row) => row.id))
}
