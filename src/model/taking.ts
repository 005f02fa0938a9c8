/** How a process takes composites that were woken. */
export interface Taking {
  /** How many at most. */
  readonly limit: number
  /** For how long. */
  readonly ms: number
  /** It may take again at once what it has taken and not brought back. */
  readonly taker: string
}

/** Inputs and items that are brought at once; a single composite may have more. */
export const MAX_TAKEN_BYTES = 64 * 1024 * 1024

/** The columns of `TakenComposite`, of what `sluice.take_composites_v1` returns. */
export const TAKEN = `job_id as "id", version, kind, state, graph, node, input, window_size as "window", total,
          completed, failed, cancelled, closing, closing_error as "closingError", closed, timed_out as "timedOut",
          chunk, chunk_items as "chunkItems", children, wakeups::text[] as wakeups`
