/** The state of a pool at one time of the database's clock. Times are in milliseconds. */
export interface PoolSituation {
  readonly min: number
  readonly max: number
  /** The capacity of each worker started for it. 0 means no limit. */
  readonly capacity: number
  readonly cooldownMs: number
  /** Its live workers that take jobs. */
  readonly taking: number
  /** Its live workers that are shutting down or drained by an operator. */
  readonly leaving: number
  /** Those of the leaving workers that may stay, because only the idle rule stopped them. */
  readonly returnable: number
  readonly overflow: readonly LaneOverflow[]
  /** How many of the jobs will be taken by workers that are starting for other pools. */
  readonly expected: number
  readonly request: OpenRequest | null
  /** Consecutive requests that brought no worker. */
  readonly failures: number
  /** Time since the last request ended. `null` if there was none. */
  readonly sinceLastMs: number | null
}

/** Ready jobs of a lane that have waited for longer than the threshold and that no worker can take. */
export interface LaneOverflow {
  readonly lane: string
  readonly jobs: number
  readonly waitedMs: number
  /** How many of them one worker may run at once. `null` means up to its capacity. */
  readonly perWorker: number | null
  /** Why no worker can take them. */
  readonly reason: string
}

export interface OpenRequest {
  readonly wanted: number
  /** How many workers the provisioner reports as started. `null` until it has responded. */
  readonly started: number | null
  readonly arrived: number
  /** No process is calling the provisioner any more, and no response was recorded. */
  readonly abandoned: boolean
  /** The time limit for arrival has passed. */
  readonly overdue: boolean
  /** How many of the started workers ended before they arrived, according to the provisioner. */
  readonly gone: number
}
