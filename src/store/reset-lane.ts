import { type Queryable, statement } from '../db/database.ts'

const RESET = statement(
  'reset_lane',
  `update sluice.lanes set operator_set = '{}', updated_at = clock_timestamp(), updated_by = $2 where name = $1 returning name`,
)

/** Forgets what operators changed: from the next start on, files and programs decide again. False when there is no such lane. */
export async function resetLane(db: Queryable, name: string, by: string): Promise<boolean> {
  return (await db.run(RESET, [name, by])).length === 1
}
