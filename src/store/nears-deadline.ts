import { type Queryable, statement } from '../db/database.ts'

const LOOK = statement(
  'nears_deadline',
  `select exists (select 1 from sluice.queue q
                   where q.state = 'ready' and q.deadline_at is not null
                     and q.deadline_at <= statement_timestamp() + make_interval(secs => $1 / 1000.0)) as nears`,
)

/** Whether a job that could start has to do so within this time. */
export async function nearsDeadline(db: Queryable, withinMs: number): Promise<boolean> {
  return (await db.run<{ nears: boolean }>(LOOK, [withinMs]))[0]!.nears
}
