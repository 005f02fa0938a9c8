import type { StoredAmount } from './amount.ts'

/** What the database needs to know about a task to accept submissions from any language and to handle losses. */
export interface TaskRecord {
  readonly name: string
  readonly lane: string
  /** Whether the config file or code sets the lane. Absent or null: neither, and a lane from a file is kept. */
  readonly laneFrom?: 'file' | 'code' | null
  readonly model: string | null
  readonly requires: Readonly<Record<string, unknown>>
  readonly priority: number
  /** Null: not given, and the stored value is kept. Default: no approval. */
  readonly approval: boolean | null
  /**
   * Whether each owner has separate keys. Absent or null: not given, and the stored value is kept. Default: shared.
   */
  readonly keys?: 'shared' | 'owner' | null
  /** Whether submissions must not name another lane. Absent or null: not given, and the stored value is kept. */
  readonly laneFixed?: boolean | null
  /** 0 means none. null means the database's default. */
  readonly deadlineMs: number | null
  readonly maxLosses: number
  readonly onLost: 'retry' | 'fail'
  /** By budget: what a job uses, or the memory of its model. null means nothing. */
  readonly uses?: Readonly<Record<string, StoredAmount>> | null
  /** What each job adds to the memory of its model. */
  readonly perJob?: Readonly<Record<string, StoredAmount>> | null
  /** The most jobs at once on one copy of its model. Default 1. */
  readonly parallel?: number
  /** Some amount is an expression on the input. */
  readonly expressed?: boolean
}
