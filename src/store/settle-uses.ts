import { type Queryable, statement } from '../db/database.ts'
import type { ResolvedUses } from '../model/amount.ts'

const SETTLE = statement('settle_uses', 'select sluice.settle_uses_v1($1) as settled')

/** Stores what waiting jobs draw, or fails those of which it cannot be told. Jobs that no longer wait are left alone. */
export async function settleUses(
  db: Queryable,
  jobs: readonly (
    | { readonly id: string; readonly uses: ResolvedUses }
    | { readonly id: string; readonly error: string }
  )[],
): Promise<void> {
  await db.run(SETTLE, [JSON.stringify(jobs)])
}
