import { type Queryable, statement } from '../db/database.ts'

const RESET = statement('reset_budget', 'select sluice.reset_budget_v1($1, $2) as reset')

/** Goes back to what files and programs say. False when there is no such budget, or no file or program declares it. */
export async function resetBudget(db: Queryable, name: string, by: string): Promise<boolean> {
  return (await db.run<{ reset: boolean }>(RESET, [name, by]))[0]!.reset
}
