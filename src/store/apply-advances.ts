import { type Queryable, statement } from '../db/database.ts'

/** What was decided about composites, as JSON texts; `sluice.advance_v1` describes the fields. */
export interface Advances {
  readonly batch: string
  readonly children: string
  readonly chunks: string
}

const APPLY = statement(
  'apply_advances',
  'select id::text as id from sluice.advance_v1($1::text::jsonb, $2::text::jsonb, $3::text::jsonb) id',
)

/** Carries out decisions, except about composites that somebody else has taken since. Answers which were carried out. */
export async function applyAdvances(db: Queryable, advances: Advances): Promise<string[]> {
  const rows = await db.run<{ id: string }>(APPLY, [advances.batch, advances.children, advances.chunks])
  return rows.map((row) => row.id)
}
