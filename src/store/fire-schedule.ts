import { type Queryable, statement } from '../db/database.ts'
import type { FiringPlan, SkipReason } from '../model/schedule.ts'

/** What became of a tick. */
export interface Fired {
  readonly tickAt: Date
  readonly jobId: string | null
  readonly attached: boolean
  readonly skipped: SkipReason | null
  readonly reason: string | null
}

const FIRE = statement(
  'fire_schedule',
  `select tick_at as "tickAt", job_id as "jobId", attached, skipped, reason
     from sluice.fire_schedule_v1($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
)

/**
 * Carries out a plan for a schedule's due ticks: jobs, records and the next tick, all or nothing.
 *
 * @returns nothing when somebody else has dealt with them, or changed the schedule.
 */
export async function fireSchedule(
  db: Queryable,
  seen: { readonly name: string; readonly version: number; readonly nextAt: Date },
  plan: FiringPlan,
): Promise<Fired[]> {
  const { fire, passed, next } = plan
  return db.run<Fired & Record<string, unknown>>(FIRE, [
    seen.name,
    seen.version,
    seen.nextAt,
    next === undefined ? null : new Date(next),
    fire.map((tick) => new Date(tick)),
    passed?.count ?? 0,
    passed === undefined ? null : new Date(passed.since),
    passed === undefined ? null : new Date(passed.last),
    passed?.why ?? null,
  ])
}
