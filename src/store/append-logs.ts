import { type Queryable, statement } from '../db/database.ts'
import { MAX_LOG_BYTES, MAX_LOG_LINES } from '../model/limits.ts'
import type { LogLine } from '../model/log-line.ts'

// A line of an attempt that has lost its lease is kept for 10 s: it is evidence, not state. Each attempt keeps a limited number of lines
// and bytes, and the line that would be one too many says so. The row in traces is locked while it counts, so that requests at the same time do not pass together.
const APPEND = statement(
  'append_logs',
  `with given as materialized (
     select g.* from rows from (jsonb_to_recordset($1) as (id bigint, attempt integer, at timestamptz, level text, line text))
              with ordinality as g(id, attempt, at, level, line, n)
   ), own as materialized (
     select a.id, a.attempt
       from (select distinct id, attempt from given) a
       join sluice.job_data d on d.id = a.id
       left join lateral (select j.attempt, j.worker_id from sluice.claimed j where j.worker_id = $2 and j.id = a.id offset 0) r on true
       left join sluice.outcomes o on o.id = a.id
       left join sluice.attempts t on t.job_id = a.id and t.attempt = a.attempt
      where ($2::bigint is null or r.attempt = a.attempt and r.worker_id = $2 or o.attempt = a.attempt and o.worker_id = $2 or t.worker_id = $2)
        and coalesce(t.ended_at, o.finished_at, 'infinity') > statement_timestamp() - interval '10 seconds'
      order by d.id for key share of d
   ), sized as materialized (
     select g.*, row_number() over w as lines, sum(octet_length(g.line)) over w as bytes
       from given g join own o using (id, attempt) window w as (partition by g.id, g.attempt order by g.n)
   ), counted as (
     insert into sluice.traces as t (job_id, attempt, lines, bytes)
     select s.id, s.attempt, max(s.lines), max(s.bytes) from sized s group by s.id, s.attempt order by s.id, s.attempt
     on conflict (job_id, attempt) do update set lines = t.lines + excluded.lines, bytes = t.bytes + excluded.bytes
     returning t.job_id, t.attempt, t.lines, t.bytes
   ), placed as (
     select s.n, s.id, s.attempt, s.at, s.level, s.line,
            c.lines - max(s.lines) over same + s.lines as lines, c.bytes - max(s.bytes) over same + s.bytes as bytes
       from sized s join counted c on c.job_id = s.id and c.attempt = s.attempt window same as (partition by s.id, s.attempt)
   ), stored as (
     insert into sluice.logs (job_id, attempt, at, level, line)
     select p.id, p.attempt, p.at, case when b.over then 'warn' else p.level end,
            case when b.over then 'the log of this attempt is full; dropping further lines' else p.line end
       from placed p cross join lateral (select p.lines > ${MAX_LOG_LINES} or p.bytes > ${MAX_LOG_BYTES} as over) b
      where p.lines - 1 <= ${MAX_LOG_LINES} and p.bytes - octet_length(p.line) <= ${MAX_LOG_BYTES}
      order by p.n
   )
   select distinct g.id from given g where not exists (select 1 from own o where o.id = g.id and o.attempt = g.attempt)`,
)

/**
 * Stores log lines in the order given, as many as an attempt may keep.
 *
 * @param workerId Only of attempts that this worker runs or ran. `null`: of any.
 * @returns the jobs whose lines were refused: the attempt is not this worker's, or ended more than 10 s ago.
 */
export async function appendLogs(
  db: Queryable,
  workerId: string | null,
  lines: readonly LogLine[],
): Promise<string[]> {
  const rows = await db.run<{ id: string }>(APPEND, [JSON.stringify(lines), workerId])
  return rows.map((row) => row.id)
}
