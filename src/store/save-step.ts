import { type Queryable, statement } from '../db/database.ts'

const SAVE = statement(
  'save_step',
  `with held as materialized (
     select id from sluice.jobs where id = $1 and attempt = $2 and worker_id = $3 and state = 'running' for key share
   ), stored as (
     insert into sluice.steps (job_id, name, attempt, result) select id, $4, $2, $5::jsonb from held
     -- Not "do nothing": that would give back nothing for a row that was committed a moment ago.
     on conflict (job_id, name) do update set attempt = steps.attempt returning result
   )
   select exists (select 1 from held) as held, (select result from stored) as result`,
)

/**
 * Commits a step's result. The first one stored for that name wins and is returned.
 *
 * @returns `undefined` when the lease is no longer held; nothing was stored then.
 */
export async function saveStep(
  db: Queryable,
  lease: { readonly jobId: string; readonly attempt: number; readonly workerId: string },
  name: string,
  result: string,
): Promise<{ readonly result: unknown } | undefined> {
  const rows = await db.run<{ held: boolean; result: unknown }>(SAVE, [
    lease.jobId,
    lease.attempt,
    lease.workerId,
    name,
    result,
  ])
  return rows[0]!.held ? { result: rows[0]!.result } : undefined
}
