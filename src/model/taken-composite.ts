/** How a process takes composites that were woken. */
export interface Taking {
  /** The most to take. */
  readonly limit: number
  /** For how many milliseconds. */
  readonly ms: number
  /** The taker may immediately retake what it has taken and not returned. */
  readonly taker: string
}

/** The most bytes of inputs and items per request. A single composite may have more. */
export const MAX_TAKEN_BYTES = 64 * 1024 * 1024

/** The columns of `TakenComposite`, from the result of `sluice.take_composites_v1`. */
export const TAKEN = `job_id as "id", version, kind, state, graph, node, input, window_size as "window", total,
          completed, failed, cancelled, closing, closing_error as "closingError", closed, timed_out as "timedOut",
          chunk, chunk_items as "chunkItems", children, wakeups::text[] as wakeups`
