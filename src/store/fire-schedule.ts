import { type Queryable, statement } from '../db/database.ts'
import type { PassedTicks, SkipReason } from '../model/schedule.ts'

/** What became of a tick. */
export interface Fired {
  readonly tickAt: Date
  readonly jobId: string | null
  readonly attached: boolean
  readonly skipped: SkipReason | null
  readonly reason: string | null
  /** Ticks in a row that got no job because an earlier one had not ended: this one included, or before this one. */
  readonly overlapped: number
}

const FIRE = statement(
  'fire_schedule',
  `select tick_at as "tickAt", job_id as "jobId", attached, skipped, reason, overlapped
     from sluice.fire_schedule_v1($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
)

/** One tick, with those that passed before it. */
export interface FiringStep {
  readonly tick: number | undefined
  readonly passed: PassedTicks | undefined
  /** Where the schedule stands afterwards. */
  readonly then: number | undefined
}

/**
 * Deals with a tick of a schedule: job, record and the next tick, all or nothing.
 *
 * @returns nothing when somebody else has dealt with it, or changed the schedule.
 */
export async function fireSchedule(
  db: Queryable,
  seen: { readonly name: string; readonly version: number; readonly nextAt: Date },
  { tick, passed, then }: FiringStep,
): Promise<Fired[]> {
  return db.run<Fired & Record<string, unknown>>(FIRE, [
    seen.name,
    seen.version,
    seen.nextAt,
    dateOf(then),
    dateOf(tick),
    passed?.count ?? 0,
    dateOf(passed?.since),
    dateOf(passed?.last),
    passed?.why ?? null,
  ])
}

function dateOf(ms: number | undefined): Date | null {
  return ms === undefined ? null : new Date(ms)
}
