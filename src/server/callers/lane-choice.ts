import type { Queryable } from '../../db/database.ts'
import type { Caller } from '../../engine/access/caller.ts'
import { checkLaneChoice } from '../../engine/operate/lane-choice.ts'

/** @throws {SluiceError} `LANE_FIXED`, `LANE_PAUSED` for a lane that the caller may not name for jobs of this task. */
export async function checkLaneOf(
  db: Queryable,
  caller: Caller,
  task: string | null | undefined,
  lane: string | null | undefined,
): Promise<void> {
  if (task == null || lane == null) return
  await checkLaneChoice(db, task, lane, caller.may('workers:manage'))
}
