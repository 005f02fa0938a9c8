import { type Queryable, statement } from '../db/database.ts'

const INSERT = statement(
  'insert_jobs',
  'select id::text as id from sluice.insert_jobs_v1($1::text::jsonb, $2::text) id',
)

/**
 * Stores jobs that have no key, all or none, and gives their ids in the order given.
 *
 * @param jobs JSON text of an array; the fields are described at `sluice.submit_v1`.
 */
export async function insertJobs(db: Queryable, jobs: string, hint: 'none' | 'soon'): Promise<string[]> {
  return (await db.run<{ id: string }>(INSERT, [jobs, hint])).map(({ id }) => id)
}
