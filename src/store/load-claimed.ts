import { type RawQueryable, statement } from '../db/database.ts'
import type { ClaimedRow } from '../model/claim.ts'

const LOAD = statement(
  'load_claimed',
  `select id, class_id, attempt, failures, rank, priority, submitted_at, key, tags, input, sluice.mark_v1(started_at), policy, trace,
          (select coalesce(jsonb_agg(distinct r.device order by r.device) filter (where r.device <> ''), '[]') from sluice.reservations r
            where r.job_id = jobs.id and r.attempt = jobs.attempt having count(*) > 0)
     from sluice.jobs
    where worker_id = $1 and state = 'running' and id = any ($2)`,
)

/** Jobs that a worker holds without knowing them, because the answer to its claim was lost. */
export async function loadClaimed(
  connection: RawQueryable,
  workerId: string,
  ids: readonly string[],
): Promise<ClaimedRow[]> {
  return connection.runRaw<ClaimedRow>(LOAD, [workerId, ids])
}
