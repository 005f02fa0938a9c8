/** A line that a running job wrote to its log. */
export interface LogLine {
  readonly id: string
  readonly attempt: number
  readonly at: string
  readonly level: string
  readonly line: string
}

/** The progress of a running job. */
export interface ProgressNote {
  readonly id: string
  readonly attempt: number
  readonly progress: number
  readonly message: string | null
}
