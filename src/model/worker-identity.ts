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
  /** Tasks that need a process of its process pool. */
  readonly pooled?: readonly string[]
  /** The most processes its process pool takes. Null: it does not share the cores of its host with other workers. */
  readonly processLimit?: number | null
  /** Its place among workers, the smallest first; among equals who came first. Default 0. */
  readonly rank?: number
  /** The pool it belongs to. */
  readonly pool?: string | null
  /** The request for workers that it was started for. */
  readonly request?: string | null
  /** Which build of the program it runs. */
  readonly build?: string | null
  /** The key that registered a worker behind a server. */
  readonly keyId?: string
}
