import { type Queryable, statement } from '../db/database.ts'

const LOAD = statement('load_checkpoint', 'select checkpoint from sluice.notes where job_id = $1')

/** What the job last saved, in this attempt or an earlier one. */
export async function loadCheckpoint(db: Queryable, jobId: string): Promise<unknown> {
  return (await db.run<{ checkpoint: unknown }>(LOAD, [jobId]))[0]?.checkpoint ?? null
}
