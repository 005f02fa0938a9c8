/** What the database has to know of a task: enough to submit it from any language and to judge a loss. */
export interface TaskRecord {
  readonly name: string
  readonly lane: string
  readonly model: string | null
  readonly requires: Readonly<Record<string, unknown>>
  readonly priority: number
  readonly approval: boolean
  readonly deadlineMs: number | null
  readonly maxLosses: number
  readonly onLost: 'retry' | 'fail'
}
