import { type Queryable, statement } from '../db/database.ts'

const LOOK = statement(
  'holds_job',
  `select 1 from sluice.jobs where id = $1 and attempt = $2 and worker_id = $3 and state = 'running'`,
)

/** Whether the lease is held. */
export async function holdsJob(
  db: Queryable,
  lease: { readonly jobId: string; readonly attempt: number; readonly workerId: string },
): Promise<boolean> {
  return (await db.run(LOOK, [lease.jobId, lease.attempt, lease.workerId])).length === 1
}
