/** A line that a running job left. */
export interface LogLine {
  readonly id: string
  readonly attempt: number
  readonly at: string
  readonly level: string
  readonly line: string
}

/** How far a running job is. */
export interface ProgressNote {
  readonly id: string
  readonly attempt: number
  readonly progress: number
  readonly message: string | null
}
