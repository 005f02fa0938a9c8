import { type Queryable, statement } from '../db/database.ts'
import { EXACT_DEPTH } from '../model/limits.ts'

export interface WindowWait {
  /** How many of its siblings come before it, up to `EXACT_DEPTH`. */
  readonly ahead: number
  /** Children of the fan-out that ended in a second since it began. `null`: none has. */
  readonly rate: number | null
}

const EXPLAIN = statement(
  'explain_window',
  `select a.ahead,
          case when c.completed + c.failed + c.cancelled > 0
               then ((c.completed + c.failed + c.cancelled) / greatest(extract(epoch from clock_timestamp() - c.started_at), 0.001))::float8 end as rate
     from sluice.job_data m
     join sluice.composites c on c.job_id = m.parent_id
    cross join lateral (
      select count(*)::integer as ahead from (
        select 1 from sluice.queue q where q.parent_id = m.parent_id and q.state = 'waiting' and q.idx < m.idx limit ${EXACT_DEPTH}) x) a
    where m.id = $1`,
)

/** Where a job stands that waits for its place in a window. */
export async function explainWindow(db: Queryable, id: string): Promise<WindowWait | undefined> {
  return (await db.run<WindowWait & Record<string, unknown>>(EXPLAIN, [id]))[0]
}
