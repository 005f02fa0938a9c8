import type { Queryable } from '../../db/database.ts'
import { Ticks } from '../../model/cron.ts'
import { findSteppedSchedules, type SteppedSchedule } from '../../store/find-stepped-schedules.ts'
import { moveSteppedSchedules } from '../../store/move-stepped-schedules.ts'

/** The most schedules to read at once. */
const CHUNK = 500

/**
 * Runs after the clock of the database was set back: schedules that run every hour continue from the new time, as when
 * the clocks of their time zone are set back. Schedules that name hours have fired at the times that recur, and wait
 * for the first new one.
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
