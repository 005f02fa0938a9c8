import { type Queryable, statement } from '../db/database.ts'

const APPROVE = statement('approve_job', 'select sluice.approve_job_v1($1, $2) as approved')

/** Lets a job run that waited for approval. False when it did not wait for one. */
export async function approveJob(db: Queryable, id: string, by: string): Promise<boolean> {
  return (await db.run<{ approved: boolean }>(APPROVE, [id, by]))[0]!.approved
}
