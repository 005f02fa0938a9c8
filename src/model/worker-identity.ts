/** What a worker says of itself when it registers. */
export interface WorkerIdentity {
  readonly name: string
  readonly host: string
  readonly pid: number
  readonly version: string
  /** 0: no limit. */
  readonly capacity: number
  readonly cores: number
  readonly tasks: readonly string[]
  /** What it offers to tasks with `requires`. */
  readonly labels: Readonly<Record<string, unknown>>
  /** Of the tasks those that need a process of its pool. Kept for workers behind a server: any server may serve them. */
  readonly pooled?: readonly string[]
  /** The key that registered a worker behind a server. */
  readonly keyId?: string
}
