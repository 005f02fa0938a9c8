import type { Queryable } from '../db/database.ts'
import type { Log } from '../engine/log.ts'

export interface DutyContext {
  readonly db: Queryable
  readonly log: Log
  /** How long this process has reached the database without a break. */
  readonly goodForMs: number
}

/** What a tick did, for the log; `undefined` when there was nothing to do. `nextInMs`: run again that soon. */
export interface DutyReport {
  readonly summary?: Readonly<Record<string, unknown>>
  readonly nextInMs?: number | null
}

/** Upkeep that any process may do at any time, also several at once. */
export interface Duty {
  readonly name: string
  /** How often it is done in the whole system. */
  readonly everyMs: number
  run(context: DutyContext): Promise<DutyReport>
}
