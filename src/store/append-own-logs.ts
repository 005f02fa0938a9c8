import { type Queryable, statement } from '../db/database.ts'
import type { LogLine } from '../model/log-line.ts'

// A line of an attempt that has lost its lease is kept too: it is evidence, not state. But it must have been this worker's.
const APPEND = statement(
  'append_own_logs',
  `with given as materialized (
     select g.* from rows from (jsonb_to_recordset($2) as (id bigint, attempt integer, at timestamptz, level text, line text))
              with ordinality as g(id, attempt, at, level, line, n)
   ), own as materialized (
     select a.id, a.attempt from (select distinct id, attempt from given) a
      where exists (select 1 from sluice.jobs j where j.id = a.id and j.attempt = a.attempt and j.worker_id = $1 for key share)
         or exists (select 1 from sluice.attempts t join sluice.jobs j on j.id = t.job_id
                     where t.job_id = a.id and t.attempt = a.attempt and t.worker_id = $1 for key share of j)
   ), stored as (
     insert into sluice.logs (job_id, attempt, at, level, line)
     select g.id, g.attempt, g.at, g.level, g.line from given g join own o using (id, attempt) order by g.n
   )
   select distinct g.id from given g where not exists (select 1 from own o where o.id = g.id and o.attempt = g.attempt)`,
)

/**
 * Stores lines of attempts that this worker runs or ran, in the order given.
 *
 * @returns the jobs whose lines were refused, because the attempt is not this worker's.
 */
export async function appendOwnLogs(
  db: Queryable,
  workerId: string,
  lines: readonly LogLine[],
): Promise<string[]> {
  const rows = await db.run<{ id: string }>(APPEND, [workerId, JSON.stringify(lines)])
  return rows.map((row) => row.id)
}
