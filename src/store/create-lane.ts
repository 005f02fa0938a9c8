import { type Queryable, statement } from '../db/database.ts'
import type { LaneValues } from '../model/fields/lane.ts'

const CREATE = statement('create_lane', 'select sluice.create_lane_v1($1, $2, $3, $4) as created')

/**
 * Creates a lane for an operator, also one that was deleted. False when it exists.
 *
 * @param given The fields that the operator set: files leave them alone.
 */
export async function createLane(
  db: Queryable,
  name: string,
  lane: LaneValues,
  given: readonly string[],
  by: string,
): Promise<boolean> {
  const rows = await db.run<{ created: boolean }>(CREATE, [name, JSON.stringify(lane), given, by])
  return rows[0]!.created
}
