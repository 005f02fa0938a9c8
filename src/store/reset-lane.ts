import { type Queryable, statement } from '../db/database.ts'

const RESET = statement('reset_lane', 'select sluice.reset_lane_v1($1, $2) as reset')

/** Undoes what operators changed: the lane is again as files and programs last said. False when there is no such lane. */
export async function resetLane(db: Queryable, name: string, by: string): Promise<boolean> {
  return (await db.run<{ reset: boolean }>(RESET, [name, by]))[0]!.reset
}
