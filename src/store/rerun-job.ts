import { type Queryable, statement } from '../db/database.ts'

const RERUN = statement('rerun_job', 'select sluice.rerun_job_v1($1) as rerun')

/** Puts a finished job back in line, if it is admitted, or makes it wait for approval; what happened so far stays in its history, its steps only if it did not complete. False when it has not finished. */
export async function rerunJob(db: Queryable, id: string): Promise<boolean> {
  return (await db.run<{ rerun: boolean }>(RERUN, [id]))[0]!.rerun
}
