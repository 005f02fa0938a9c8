import { type Queryable, statement } from '../db/database.ts'
import type { BudgetValues } from '../model/fields/budget.ts'

const CREATE = statement('create_budget', 'select sluice.create_budget_v1($1, $2, $3, $4) as created')

/**
 * Creates a budget for the whole system for an operator. False when it exists.
 *
 * @param bytes Its amounts are sizes of memory.
 */
export async function createBudget(
  db: Queryable,
  name: string,
  given: Partial<BudgetValues>,
  bytes: boolean,
  by: string,
): Promise<boolean> {
  const rows = await db.run<{ created: boolean }>(CREATE, [name, JSON.stringify(given), bytes, by])
  return rows[0]!.created
}
