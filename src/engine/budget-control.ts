import type { Queryable } from '../db/database.ts'
import { SluiceError } from '../errors.ts'
import { parseQuantity, quantity } from '../model/amount.ts'
import { checkOptions, invalidArgument } from '../model/argument.ts'
import type { Duration } from '../model/duration.ts'
import { duration, MAX_STORED_MS } from '../model/setting-value.ts'
import { type BudgetChange, changeBudget } from '../store/change-budget.ts'
import { resetBudget } from '../store/reset-budget.ts'

/** What an operator may change of a budget. Amounts are numbers or sizes such as `20GB`. */
export interface OperatorBudgetChange {
  /** Of a shared budget. */
  readonly capacity?: number | string
  /** Left free on each device, as measured. */
  readonly safety?: number | string
  readonly quantum?: number
  readonly maxWait?: Duration
  /** The most that may be held of a device, by its key; null: as much as it has. */
  readonly limits?: Readonly<Record<string, number | string | null>>
}

const OPTIONS = ['capacity', 'safety', 'quantum', 'maxWait', 'limits']
const wait = duration({ min: 1, max: MAX_STORED_MS })

/** @throws {SluiceError} `INVALID_ARGUMENT` naming the field; `BUDGET_NOT_FOUND`. */
export async function changeBudgetAsOperator(
  db: Queryable,
  name: string,
  change: OperatorBudgetChange,
  by: string,
): Promise<void> {
  if (!(await changeBudget(db, name, checked(change), by, true))) throw unknown(name)
}

/** Undoes operators' changes: it is again as files and programs last said. @throws {SluiceError} `BUDGET_NOT_FOUND`. */
export async function forgetBudgetChanges(db: Queryable, name: string, by: string): Promise<void> {
  if (!(await resetBudget(db, name, by))) throw unknown(name)
}

function unknown(name: string): SluiceError {
  return new SluiceError('BUDGET_NOT_FOUND', `no budget is named ${JSON.stringify(name)}`, {
    details: { name },
  })
}

function checked(change: OperatorBudgetChange): BudgetChange {
  checkOptions(change, OPTIONS, 'change')
  const { capacity, safety, quantum, maxWait, limits } = change
  if (Object.values(change).every((value) => value === undefined))
    throw invalidArgument('change', change, `an object with any of ${OPTIONS.join(', ')}`)
  if (quantum !== undefined && !(Number.isFinite(quantum) && quantum >= 0))
    throw invalidArgument('quantum', quantum, 'a number of at least 0')
  const maxWaitMs = maxWait === undefined ? undefined : wait.read(maxWait)
  if (maxWait !== undefined && maxWaitMs === undefined)
    throw invalidArgument('maxWait', maxWait, wait.expected)
  return {
    ...(capacity !== undefined && { capacity: size(capacity, 'capacity') }),
    ...(safety !== undefined && { safety: size(safety, 'safety') }),
    ...(quantum !== undefined && { quantum }),
    ...(maxWaitMs !== undefined && { maxWaitMs }),
    ...(limits !== undefined && {
      limits: Object.fromEntries(
        Object.entries(limits).map(([key, limit]) => [
          key,
          limit === null ? null : size(limit, `limits.${key}`),
        ]),
      ),
    }),
  }
}

function size(value: number | string, name: string): number {
  const read = parseQuantity(value)
  if (read === undefined) throw invalidArgument(name, value, quantity.expected)
  return read
}
