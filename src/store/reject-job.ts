import { type Queryable, statement } from '../db/database.ts'

const REJECT = statement('reject_job', 'select sluice.reject_job_v1($1, $2, $3) as rejected')

/** Ends a job that waited for approval. False when it did not wait for one. */
export async function rejectJob(db: Queryable, id: string, comment: string, by: string): Promise<boolean> {
  return (await db.run<{ rejected: boolean }>(REJECT, [id, comment, by]))[0]!.rejected
}
