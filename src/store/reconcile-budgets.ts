import { type Queryable, statement } from '../db/database.ts'

export interface BudgetDrift {
  readonly what: string
  readonly subject: string
}

const RECONCILE = statement('reconcile_budgets', 'select what, subject from sluice.reconcile_budgets_v1()')

/** Removes what no longer counts against budgets. Any row is a bug somewhere: a job that should draw and does not. */
export async function reconcileBudgets(db: Queryable): Promise<BudgetDrift[]> {
  return db.run<BudgetDrift & Record<string, unknown>>(RECONCILE)
}
