import { type Queryable, statement } from '../db/database.ts'
import type { ProgressNote } from '../model/log-line.ts'

// Only the holder of the lease may write: the join finds nothing for anybody else. The limit makes it one look by id for each
// note: as a plain join, a plan made while little runs would go on to read all that runs. A job whose row is locked cannot be deleted before its
// note is committed and deleted with it.
const SAVE = statement(
  'save_progress',
  `insert into sluice.notes as n (job_id, attempt, progress, message)
   select j.id, j.attempt, g.progress, left(g.message, 1000)
     from jsonb_to_recordset($2) as g(id bigint, attempt integer, progress real, message text)
    cross join lateral (select r.id, r.attempt from sluice.claimed r where r.id = g.id and r.attempt = g.attempt and r.worker_id = $1 limit 1) j
     join sluice.job_data d on d.id = j.id
    order by j.id for key share of d
   on conflict (job_id) do update set attempt = excluded.attempt, progress = excluded.progress, message = excluded.message,
      updated_at = clock_timestamp()
    where n.attempt <= excluded.attempt
   returning job_id as id`,
)

/** Stores the latest progress of several running jobs, and 1,000 characters of its message. Gives those whose progress was stored: the others are not held, or no longer. */
export async function saveProgress(
  db: Queryable,
  workerId: string,
  notes: readonly ProgressNote[],
): Promise<string[]> {
  const rows = await db.run<{ id: string }>(SAVE, [workerId, JSON.stringify(notes)])
  return rows.map((row) => row.id)
}
