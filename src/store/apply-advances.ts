import { type Queryable, statement } from '../db/database.ts'
import type { TakenComposite } from '../model/composite.ts'
import { MAX_TAKEN_BYTES, TAKEN, type Taking } from '../model/taken-composite.ts'

/** What was decided about composites, as JSON texts; `sluice.advance_v1` describes the fields. */
export interface Advances {
  readonly batch: string
  readonly children: string
  readonly chunks: string
}

const APPLY = statement(
  'apply_advances',
  `select ${TAKEN}
     from sluice.advance_and_take_v1($1::text::jsonb, $2::text::jsonb, $3::text::jsonb, $4, $5, $6, $7)`,
)

/**
 * Carries out decisions, except about composites that somebody else has taken since.
 *
 * @param taking What to take afterwards, in the same transaction; `undefined`: nothing.
 */
export async function applyAdvances(
  db: Queryable,
  { batch, children, chunks }: Advances,
  taking?: Taking,
): Promise<TakenComposite[]> {
  return db.run<TakenComposite & Record<string, unknown>>(APPLY, [
    batch,
    children,
    chunks,
    taking?.limit ?? null,
    taking?.ms ?? null,
    taking?.taker ?? null,
    MAX_TAKEN_BYTES,
  ])
}
