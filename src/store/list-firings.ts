import { type Queryable, statement } from '../db/database.ts'
import type { SkipReason } from '../model/schedule.ts'

/** What became of a tick of a schedule, or of several that came to nothing together. */
export interface Firing {
  readonly id: string
  /** When it was to be fired; of several the last one. */
  readonly tickAt: Date
  /** Of several the first one. */
  readonly since: Date | null
  /** How many ticks this stands for. 1000 is "at least that many". */
  readonly ticks: number
  /** When it was dealt with. */
  readonly firedAt: Date
  readonly jobId: string | null
  /** The job was there already, with the schedule's key. */
  readonly attached: boolean
  /** Why there is no job. */
  readonly skipped: SkipReason | null
  readonly reason: string | null
  /** Who fired it by hand; `null` for the clock. */
  readonly askedBy: string | null
}

const LIST = statement(
  'list_firings',
  `select f.id, f.tick_at as "tickAt", f.since, f.ticks, f.fired_at as "firedAt", f.job_id as "jobId", f.attached, f.skipped, f.reason,
          f.asked_by as "askedBy"
     from sluice.firings f
    where f.schedule = $1 and ($2::bigint is null or f.id < $2)
    order by f.id desc limit $3`,
)

/** The firings of a schedule, newest first. */
export async function listFirings(
  db: Queryable,
  schedule: string,
  before: string | null,
  limit: number,
): Promise<Firing[]> {
  return db.run<Firing & Record<string, unknown>>(LIST, [schedule, before, limit])
}
