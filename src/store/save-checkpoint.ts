import { type Queryable, statement } from '../db/database.ts'

// The size is checked here and not by a constraint, which would read the checkpoint again with every progress of the job. Why the job's row is
// locked is said in save-progress.ts.
const SAVE = statement(
  'save_checkpoint',
  `with given as (select octet_length($4::text) > 16777216 as is_large), saved as (
     insert into sluice.notes as n (job_id, attempt, checkpoint)
     select r.id, r.attempt, $4::text::jsonb from sluice.claimed r join sluice.job_data d on d.id = r.id cross join given g
      where r.id = $1 and r.attempt = $2 and r.worker_id = $3 and not g.is_large for key share of d
     on conflict (job_id) do update set attempt = excluded.attempt, checkpoint = excluded.checkpoint, updated_at = clock_timestamp()
      where n.attempt <= excluded.attempt
     returning job_id)
   select g.is_large, exists (select 1 from saved) as saved from given g`,
)

/** Replaces the job's checkpoint. False when the lease is no longer held, `large` for more than 16 MiB; nothing was stored then. */
export async function saveCheckpoint(
  db: Queryable,
  lease: { readonly jobId: string; readonly attempt: number; readonly workerId: string },
  value: string,
): Promise<boolean | 'large'> {
  const [answer] = await db.run<{ is_large: boolean; saved: boolean }>(SAVE, [
    lease.jobId,
    lease.attempt,
    lease.workerId,
    value,
  ])
  return answer!.is_large ? 'large' : answer!.saved
}
