import { type Queryable, statement } from '../db/database.ts'

export interface LaneChange {
  readonly slots?: number | null
  readonly perWorker?: number | null
  readonly pollMs?: number
  readonly staleMs?: number
  readonly ageingMs?: number | null
  readonly enabled?: boolean
  readonly placement?: 'fill' | 'spread'
  readonly prefetch?: number
}

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
