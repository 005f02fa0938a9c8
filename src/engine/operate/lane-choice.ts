import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { findOwnLane } from '../../store/find-own-lane.ts'

/**
 * Checks a lane that somebody names for jobs of a task. A submission is refused by the database where the task fixes its lane; a schedule
 * would only be refused with its first tick.
 *
 * @param mayEvade Whether they may name another lane while the task's own is paused: an operator paused it for a reason.
 * @throws {SluiceError} `LANE_FIXED`, `LANE_PAUSED`.
 */
export async function checkLaneChoice(
  db: Queryable,
  task: string,
  named: string,
  mayEvade: boolean,
): Promise<void> {
  const own = await findOwnLane(db, task, named)
  if (own === undefined || own.same) return
  const details = { name: task, lane: own.lane }
  if (own.fixed)
    throw new SluiceError(
      'LANE_FIXED',
      `task "${task}" fixes its lane, "${own.lane}": submit without a lane, or ask an operator to move the task`,
      { details },
    )
  if (own.paused && !mayEvade)
    throw new SluiceError(
      'LANE_PAUSED',
      `lane "${own.lane}" of task "${task}" is paused, so no other lane can be named: submit without a lane, and the job starts when it is resumed. Naming "${named}" requires workers:manage`,
      { details },
    )
}
