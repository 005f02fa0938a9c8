import { type Queryable, statement } from '../db/database.ts'
import type { SkipReason } from '../model/schedule.ts'

/** A schedule as it was found, and the one tick of it that is due. */
export interface DueTick {
  readonly name: string
  readonly version: number
  readonly nextAt: Date
  readonly tick: number
  /** Where the schedule stands afterwards. */
  readonly next: number | undefined
}

/** What became of a tick. */
export interface FiredOfMany {
  readonly schedule: string
  readonly tickAt: Date
  readonly jobId: string | null
  readonly attached: boolean
  readonly skipped: SkipReason | null
  readonly reason: string | null
  /** Ticks in a row that got no job because an earlier one had not ended: this one included, or before this one. */
  readonly overlapped: number
}

const FIRE = statement(
  'fire_schedules',
  `select schedule, tick_at as "tickAt", job_id as "jobId", attached, skipped, reason, overlapped from sluice.fire_schedules_v1($1)`,
)

/**
 * Deals with one tick of each of many schedules, all or none.
 *
 * @returns one row for each that nobody else has dealt with or changed.
 * @throws when a job would be refused. Nothing has been done then.
 */
export async function fireSchedules(db: Queryable, ticks: readonly DueTick[]): Promise<FiredOfMany[]> {
  const items = ticks.map(({ name, version, nextAt, tick, next }) => ({
    name,
    version,
    next_at: nextAt,
    tick: new Date(tick),
    then_at: next === undefined ? null : new Date(next),
  }))
  return db.run<FiredOfMany & Record<string, unknown>>(FIRE, [JSON.stringify(items)])
}
