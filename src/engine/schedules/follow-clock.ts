import type { Queryable } from '../../db/database.ts'
import { Ticks } from '../../model/cron.ts'
import { findSteppedSchedules, type SteppedSchedule } from '../../store/find-stepped-schedules.ts'
import { moveSteppedSchedules } from '../../store/move-stepped-schedules.ts'

/** Schedules looked at in one go. */
const CHUNK = 500

/**
 * After the clock of the database stepped back: schedules that run in every hour go on from the new time, as they do when the clocks of
 * their time zone are put back. Those that name hours have fired at the times that come again, and wait for the first that is new.
 */
export async function followClock(db: Queryable): Promise<void> {
  for (;;) {
    const stepped = await findSteppedSchedules(db, CHUNK)
    if (stepped.length === 0) return
    const moved = await moveSteppedSchedules(
      db,
      stepped.map((schedule) => ({ ...schedule, nextTick: nextTick(schedule) })),
    )
    // What is left is somebody else's just now; the next run of the duty looks again.
    if (stepped.length < CHUNK || moved.length === 0) return
  }
}

function nextTick({ cron, timezone, nextAt, now }: SteppedSchedule): Date | null {
  if (nextAt === null || nextAt <= now) return nextAt
  const ticks = new Ticks(cron, timezone)
  const next = ticks.goesOnWhenSetBack ? ticks.next(now.getTime()) : undefined
  return next === undefined ? nextAt : new Date(next)
}
