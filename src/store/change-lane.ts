import { type Queryable, statement } from '../db/database.ts'
import type { LaneValues } from '../model/fields/lane.ts'

/** The fields that change, as they are stored. */
export type LaneChange = Partial<LaneValues>

const CHANGE = statement('change_lane', 'select sluice.change_lane_v1($1, $2, $3, $4) as changed')

/**
 * Changes a lane. An operator's change stays until it is reset, whatever files say; other changes leave fields alone that
 * an operator has set. False when there is no such lane.
 */
export async function changeLane(
  db: Queryable,
  name: string,
  change: LaneChange,
  by: string,
  operator: boolean,
): Promise<boolean> {
  return (await db.run<{ changed: boolean }>(CHANGE, [name, JSON.stringify(change), by, operator]))[0]!
    .changed
}
