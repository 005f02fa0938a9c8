/** What a worker reports when it registers. */
export interface WorkerIdentity {
  readonly name: string
  readonly host: string
  readonly pid: number
  readonly version: string
  /** 0 means no limit. */
  readonly capacity: number
  readonly cores: number
  readonly tasks: readonly string[]
  /** Its labels, for tasks with `requires`. */
  readonly labels: Readonly<Record<string, unknown>>
  /** Tasks that need a process of its process pool. */
  readonly pooled?: readonly string[]
  /** The most processes in its process pool. Null if it does not share the cores of its host with other workers. */
  readonly processLimit?: number | null
  /** Its rank among workers, lowest first. Equal ranks are ordered by registration. Default 0. */
  readonly rank?: number
  /** The pool it belongs to. */
  readonly pool?: string | null
  /** The request for workers that it was started for. */
  readonly request?: string | null
  /** The build of its program. */
  readonly build?: string | null
  /** The key that registered it, if it connects through a server. */
  readonly keyId?: string
}
