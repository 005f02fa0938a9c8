import { type Queryable, statement } from '../db/database.ts'

const LIST = statement('list_budget_names', 'select name from sluice.budgets order by name')

export async function listBudgetNames(db: Queryable): Promise<string[]> {
  return (await db.run<{ name: string }>(LIST)).map(({ name }) => name)
}
