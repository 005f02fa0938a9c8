import { type RawQueryable, statement } from '../db/database.ts'
import type { ClaimedRow } from '../model/claim.ts'

const LOAD = statement(
  'load_claimed',
  `select r.id, r.class_id, r.attempt, r.failures, sluice.rank_in_class_v1(r.class_id, d.priority, d.submitted_at), d.priority, d.submitted_at, d.key, d.tags,
          d.input, r.seq, d.policy, d.trace,
          (select coalesce(jsonb_agg(distinct v.device order by v.device) filter (where v.device <> ''), '[]') from sluice.reservations v
            where v.job_id = r.id and v.attempt = r.attempt having count(*) > 0), r.assigned, null::jsonb
     from sluice.claimed r join sluice.job_data d on d.id = r.id
    where r.worker_id = $1 and r.id = any ($2)`,
)

/** Jobs that a worker holds without knowing them, because the answer to its claim was lost. */
export async function loadClaimed(
  connection: RawQueryable,
  workerId: string,
  ids: readonly string[],
): Promise<ClaimedRow[]> {
  return connection.runRaw<ClaimedRow>(LOAD, [workerId, ids])
}
