import { type Queryable, statement } from '../db/database.ts'
import { BUDGET_FIELDS, type BudgetValues } from '../model/fields/budget.ts'
import { selected } from '../model/fields/columns.ts'

/** A budget as it is set. */
export interface StoredBudget extends Omit<BudgetValues, 'capacity'> {
  readonly name: string
  readonly kind: 'shared' | 'device'
  /** Of a shared one; null: without bounds. */
  readonly capacity: number | null
  /** Its devices are the GPUs of each machine. */
  readonly auto: boolean
  /** Its amounts are sizes of memory. */
  readonly bytes: boolean
  /** Fields an operator changed; `limits` where a device of it has one, which the device tells. */
  readonly operatorSet: readonly string[]
  readonly updatedAt: Date
  readonly updatedBy: string
}

const LIST = statement(
  'list_budgets',
  `select b.name, b.kind, b.auto, b.bytes, ${selected(BUDGET_FIELDS, 'b')},
          b.operator_set || case when exists (select 1 from sluice.devices d where d.budget = b.name and d.most is not null)
                                 then '{limits}'::text[] else '{}' end as "operatorSet",
          b.updated_at as "updatedAt", b.updated_by as "updatedBy"
     from sluice.budgets b order by b.name`,
)

export async function listBudgets(db: Queryable): Promise<StoredBudget[]> {
  return db.run<StoredBudget & Record<string, unknown>>(LIST)
}
