import { type Queryable, statement } from '../db/database.ts'

const DELETE = statement('delete_lane', 'select sluice.delete_lane_v1($1, $2, $3) as used')

/**
 * Deletes a lane that exists.
 *
 * @param moveTo Where its tasks and jobs go.
 * @returns What it is in use by, where `moveTo` is `null`; nothing has happened then.
 */
export async function deleteLane(
  db: Queryable,
  name: string,
  moveTo: string | null,
  by: string,
): Promise<string | null> {
  return (await db.run<{ used: string | null }>(DELETE, [name, moveTo, by]))[0]!.used
}
