import { type Queryable, statement } from '../db/database.ts'

const SAVE = statement(
  'save_checkpoint',
  `insert into sluice.notes as n (job_id, attempt, checkpoint)
   select id, attempt, $4::jsonb from sluice.jobs where id = $1 and attempt = $2 and worker_id = $3 and state = 'running'
   on conflict (job_id) do update set attempt = excluded.attempt, checkpoint = excluded.checkpoint, updated_at = clock_timestamp()
    where n.attempt <= excluded.attempt
   returning job_id`,
)

/** Replaces the job's checkpoint. False when the lease is no longer held. */
export async function saveCheckpoint(
  db: Queryable,
  lease: { readonly jobId: string; readonly attempt: number; readonly workerId: string },
  value: string,
): Promise<boolean> {
  return (await db.run(SAVE, [lease.jobId, lease.attempt, lease.workerId, value])).length === 1
}
