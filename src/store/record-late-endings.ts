import { type Queryable, statement } from '../db/database.ts'

// What this worker itself has recorded is only told again: its answer may have been lost. A job that was lost for good keeps
// its worker, and no row of the attempt.
const NOTE = statement(
  'record_late_endings',
  `with late as materialized (
     select distinct g.id from jsonb_to_recordset($3) as g(id bigint, attempt integer)
      where not exists (select 1 from sluice.attempts t
                         where t.job_id = g.id and t.attempt = g.attempt and t.worker_id = $1 and t.ending <> 'lost')
        and not exists (select 1 from sluice.outcomes o
                         where o.id = g.id and o.attempt = g.attempt and o.worker_id = $1
                           and coalesce(o.error, '') not like 'lost:%')
   ), noted as (
     insert into sluice.recoveries (kind, worker, jobs, job_ids, detail)
     select 'late_write', $2, count(*), (array_agg(l.id order by l.id))[:20], $4 from late l having count(*) > 0
   )
   select id from late order by id`,
)

/**
 * Writes down that a worker told the endings of jobs that it does not hold, and was refused.
 *
 * @returns the jobs that it was about: those whose attempt this worker has not ended itself.
 */
export async function recordLateEndings(
  db: Queryable,
  worker: { readonly id: string; readonly name: string },
  attempts: readonly { readonly id: string; readonly attempt: number }[],
  detail: string,
): Promise<string[]> {
  const given = JSON.stringify(attempts.map(({ id, attempt }) => ({ id, attempt })))
  const rows = await db.run<{ id: string }>(NOTE, [worker.id, worker.name, given, detail])
  return rows.map((row) => row.id)
}
