/** What is known of a pool at one moment of the database. Times are milliseconds. */
export interface PoolSituation {
  readonly min: number
  readonly max: number
  /** Jobs at once of each worker started for it; 0: no limit of its own. */
  readonly capacity: number
  readonly cooldownMs: number
  /** Workers of it that live and take jobs. */
  readonly taking: number
  /** Workers of it that live and are on their way out, or drained by an operator. */
  readonly leaving: number
  /** Of those, the ones that may be told to stay: nobody but the idle rule has sent them away. */
  readonly returnable: number
  readonly overflow: readonly LaneOverflow[]
  /** Jobs that workers on their way for other pools will take of these. */
  readonly expected: number
  readonly request: OpenRequest | null
  /** Requests in a row that brought no worker. */
  readonly failures: number
  /** Since the last request ended; `null`: there was none. */
  readonly sinceLastMs: number | null
}

/** Jobs of a lane that could start, have waited for longer than a moment, and that no worker can take. */
export interface LaneOverflow {
  readonly lane: string
  readonly jobs: number
  readonly waitedMs: number
  /** How many of them one worker may run at once; `null`: as many as its capacity. */
  readonly perWorker: number | null
  /** Why nobody can. */
  readonly reason: string
}

export interface OpenRequest {
  readonly wanted: number
  /** How many the provisioner says it has started; `null` while it has not answered. */
  readonly started: number | null
  readonly arrived: number
  /** Nobody calls the provisioner any more, and nobody has noted an answer. */
  readonly abandoned: boolean
  /** The time limit for arrival has passed. */
  readonly overdue: boolean
  /** Of those started, how many the provisioner has seen end before they came. */
  readonly gone: number
}
