import { type Queryable, statement } from '../db/database.ts'
import type { BudgetValues } from '../model/fields/budget.ts'

/** Fields of a budget as the database has them. */
export interface BudgetChange extends Partial<Omit<BudgetValues, 'capacity'>> {
  readonly kind?: 'shared' | 'device'
  /** Of a shared one; null: without bounds. */
  readonly capacity?: number | null
  /** The devices are the GPUs of each machine. */
  readonly auto?: boolean
  /** Else: what each machine has, by name. */
  readonly devices?: Readonly<Record<string, number>>
  /** Its amounts are sizes of memory. */
  readonly bytes?: boolean
  /** An operator's limits, by the key of the device; null: none. */
  readonly limits?: Readonly<Record<string, number | null>>
}

const CHANGE = statement('change_budget', 'select sluice.change_budget_v1($1, $2, $3, $4) as changed')

/**
 * Changes a budget; files and programs also make it. An operator's change stays until it is reset. False when an operator
 * names one that does not exist.
 */
export async function changeBudget(
  db: Queryable,
  name: string,
  change: BudgetChange,
  by: string,
  operator: boolean,
): Promise<boolean> {
  return (await db.run<{ changed: boolean }>(CHANGE, [name, JSON.stringify(change), by, operator]))[0]!
    .changed
}
