import type { StoredAmount } from './amount.ts'

/** What the database has to know of a task: enough to submit it from any language and to judge a loss. */
export interface TaskRecord {
  readonly name: string
  readonly lane: string
  /** Who says so: the config file, or code. Absent or null: nobody, and a lane that a file gave the task stays. */
  readonly laneFrom?: 'file' | 'code' | null
  readonly model: string | null
  readonly requires: Readonly<Record<string, unknown>>
  readonly priority: number
  /** Null: nobody says, and what is known of it stays; no approval where nothing is known. */
  readonly approval: boolean | null
  /** Whether each owner has keys of their own. Absent or null: nobody says, and what is known of it stays; shared where nothing is known. */
  readonly keys?: 'shared' | 'owner' | null
  /** Whether submissions may name no other lane. Absent or null: nobody says, and what is known of it stays. */
  readonly laneFixed?: boolean | null
  /** 0: none; null: as the database says. */
  readonly deadlineMs: number | null
  readonly maxLosses: number
  readonly onLost: 'retry' | 'fail'
  /** By budget, what a job draws, or its model's memory; null: nothing. */
  readonly uses?: Readonly<Record<string, StoredAmount>> | null
  /** What each job adds to the memory of its model. */
  readonly perJob?: Readonly<Record<string, StoredAmount>> | null
  /** Jobs at once on one copy of its model. Default 1. */
  readonly parallel?: number
  /** Some amount is an expression on the input. */
  readonly expressed?: boolean
}
