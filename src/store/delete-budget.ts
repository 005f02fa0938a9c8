import { type Queryable, statement } from '../db/database.ts'

/** What became of it: it is gone where it was found and nothing uses it. */
export interface DeletedBudget {
  readonly found: boolean
  /** Tasks that use it and that somebody runs, or a pool's next worker will, or whose jobs have not ended. */
  readonly tasks: readonly string[]
  /** Pools whose last worker ran some of them, and that may have workers again. */
  readonly pools: readonly string[]
  /** Running jobs that draw from it. */
  readonly jobs: number
}

const DELETE = statement('delete_budget', 'select sluice.delete_budget_v1($1) as deleted')

/** Removes a budget with its devices, unless something uses it. */
export async function deleteBudget(db: Queryable, name: string): Promise<DeletedBudget> {
  return (await db.run<{ deleted: DeletedBudget }>(DELETE, [name]))[0]!.deleted
}
