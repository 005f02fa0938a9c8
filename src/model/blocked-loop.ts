/** A worker's event loop is blocked because an inline task computes without yielding. */
export interface BlockedLoop {
  readonly forMs: number
  /** The tasks that run inline. One of them blocks the event loop. */
  readonly tasks: readonly string[]
}
