/** That a worker's event loop does not turn: an inline task computes without a pause. */
export interface BlockedLoop {
  readonly forMs: number
  /** Tasks that run inline meanwhile: one of them blocks it. */
  readonly tasks: readonly string[]
}
