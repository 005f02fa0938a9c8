import { type Queryable, statement } from '../db/database.ts'

const DECLARE = statement(
  'declare_deadline',
  `insert into sluice.settings (name, value) values ('deadline_ms', $1) on conflict (name) do nothing`,
)

/** How long jobs may wait to start whose tasks say nothing about it. Leaves alone what has been said before. */
export async function declareDeadline(db: Queryable, ms: number): Promise<void> {
  await db.run(DECLARE, [ms])
}
