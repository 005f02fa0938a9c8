import { type Queryable, statement } from '../db/database.ts'
import type { LogLine } from '../model/log-line.ts'

// A line of an attempt that has lost its lease is kept too: it is evidence, not state. It only needs the job to exist.
const APPEND = statement(
  'append_logs',
  `insert into sluice.logs (job_id, attempt, at, level, line)
   select g.id, g.attempt, g.at, g.level, g.line
     from jsonb_to_recordset($1) as g(id bigint, attempt integer, at timestamptz, level text, line text)
    where exists (select 1 from sluice.jobs j where j.id = g.id for key share)`,
)

/** Stores log lines in the order given. */
export async function appendLogs(db: Queryable, lines: readonly LogLine[]): Promise<void> {
  await db.run(APPEND, [JSON.stringify(lines)])
}
