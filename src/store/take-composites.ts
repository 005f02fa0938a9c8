import { type Queryable, statement } from '../db/database.ts'
import type { TakenComposite } from '../model/composite.ts'

const TAKE = statement(
  'take_composites',
  `select job_id as "id", version, kind, state, graph, node, input, window_size as "window", total,
          completed, failed, cancelled, closing, closing_error as "closingError", closed, timed_out as "timedOut",
          chunk, chunk_items as "chunkItems", children, wakeups::text[] as wakeups
     from sluice.take_composites_v1($1, $2, $3, $4)`,
)

/** Inputs and items that are brought at once; a single composite may have more. */
const MAX_BYTES = 64 * 1024 * 1024

/** Takes composites that were woken, at most `limit`, for `ms`; also those that this taker has taken and not brought back. */
export async function takeComposites(
  db: Queryable,
  limit: number,
  ms: number,
  taker: string,
): Promise<TakenComposite[]> {
  return db.run<TakenComposite & Record<string, unknown>>(TAKE, [limit, ms, taker, MAX_BYTES])
}
