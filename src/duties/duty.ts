import type { Queryable } from '../db/database.ts'
import type { Log } from '../engine/log.ts'

export interface DutyContext {
  readonly db: Queryable
  readonly log: Log
  /** How long the database has been looked at without a break, by this process or others. */
  readonly goodForMs: number
  /** The process is stopping: a duty that works in batches begins no other. */
  readonly isStopping: () => boolean
}

export interface DutyReport {
  /** What this tick did, for the log; left out when there was nothing to do. */
  readonly summary?: Readonly<Record<string, unknown>>
  /** It looked and had nothing to do: the summary is kept, and logged for those who look for it only. */
  readonly uneventful?: boolean
  /** How long until the next scheduled job is due, where the duty learned it. */
  readonly nextDueInMs?: number | null
  /** How long until the next tick of a schedule, where the duty learned it. */
  readonly nextTickInMs?: number | null
}

/** Upkeep that any process may do at any time, also several at once. */
export interface Duty {
  readonly name: string
  /** How often it is done in the whole system. */
  readonly everyMs: number
  run(context: DutyContext): Promise<DutyReport>
}
