import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { formatQuantity, hasUnit, parseQuantity, quantity, SMALLEST_SIZE } from '../../model/amount.ts'
import { checkOptions, checkText, invalidArgument } from '../../model/argument.ts'
import { BUDGET_FIELDS, type BudgetFieldsSource, type BudgetValues } from '../../model/fields/budget.ts'
import { pickStored } from '../../model/fields/field.ts'
import { readChange } from '../../model/fields/read-change.ts'
import { isName, NAME_RULE } from '../../model/limits.ts'
import { type BudgetChange, changeBudget } from '../../store/change-budget.ts'
import { createBudget } from '../../store/create-budget.ts'
import { deleteBudget } from '../../store/delete-budget.ts'
import { listBudgetNames } from '../../store/list-budget-names.ts'
import { listBudgets, type StoredBudget } from '../../store/list-budgets.ts'
import { listDevices, type StoredDevice } from '../../store/list-devices.ts'
import { resetBudget } from '../../store/reset-budget.ts'
import { unknownBudget } from '../views/budget-view.ts'

/** What an operator may change of a budget. Amounts are numbers or sizes such as `20GB`. */
export interface OperatorBudgetChange extends BudgetFieldsSource {
  /** The most that may be held of a device, by its key, or its name on every machine. null: its whole capacity. */
  readonly limits?: Readonly<Record<string, number | string | null>>
}

const OPTIONS = [...Object.keys(BUDGET_FIELDS), 'limits']

/** A budget for the whole system, as an operator creates it. */
export interface OperatorBudget extends Omit<BudgetFieldsSource, 'capacity'> {
  /** A number, or a size such as `24GB`. */
  readonly capacity: number | string
}

/**
 * A budget that no file declares. One with devices is for files: only machines can offer devices.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` naming the field; `BUDGET_EXISTS`.
 */
export async function addBudget(
  db: Queryable,
  name: string,
  given: OperatorBudget,
  by: string,
): Promise<void> {
  if (!isName(checkText(name, 'budget'))) throw invalidArgument('budget', name, NAME_RULE)
  const { limits, ...fields } = checked(given)
  if (limits !== undefined)
    throw invalidBudget(
      'limits',
      `budget ${name} would have no devices; set capacity, or declare a budget with devices in a config file`,
    )
  if (typeof fields.capacity !== 'number')
    throw invalidArgument('capacity', given.capacity, quantity.expected)
  // Files leave alone what an operator has set.
  const { capacity } = fields
  if (!(await createBudget(db, name, { ...fields, capacity }, hasUnit(given.capacity), by)))
    throw new SluiceError(
      'BUDGET_EXISTS',
      `budget ${name} already exists. Change it with: sluice budgets set ${name}`,
      { details: { name } },
    )
}

/**
 * An operator's change. What runs is left alone; new jobs wait where there is less.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` naming the field; `BUDGET_NOT_FOUND`.
 */
export async function changeBudgetAsOperator(
  db: Queryable,
  name: string,
  change: OperatorBudgetChange,
  by: string,
): Promise<void> {
  const given = checked(change)
  if (!isName(checkText(name, 'budget'))) throw await unknown(db, name)
  const budget = (await listBudgets(db)).find((each) => each.name === name)
  if (budget === undefined) throw await unknown(db, name)
  if (given.capacity !== undefined && budget.kind === 'device')
    throw invalidBudget(
      'capacity',
      `budget ${name} is counted per device; set limits, such as { gpu0: '20GB' }`,
    )
  if (given.limits !== undefined && budget.kind === 'shared')
    throw invalidBudget('limits', `budget ${name} has no devices; set capacity`)
  const limits = given.limits && (await resolveLimits(db, budget, given.limits))
  if (budget.bytes) checkSizes(name, given)
  await changeBudget(db, name, { ...given, ...(limits !== undefined && { limits }) }, by, true)
}

/** A few bytes of memory are probably a missing unit, and would stop everything. */
function checkSizes(name: string, { capacity, limits = {} }: BudgetChange): void {
  const named = Object.entries(limits).map(([device, limit]) => [`limits.${device}`, limit] as const)
  const amounts = [['capacity', capacity] as const, ...named]
  for (const [where, amount] of amounts)
    if (typeof amount === 'number' && amount > 0 && amount < SMALLEST_SIZE)
      throw invalidArgument(
        where,
        amount,
        `a size with a unit, such as ${amount}GB: ${name} is counted in bytes`,
      )
}

/**
 * Undoes operators' changes: it is again as files and programs last said.
 *
 * @throws {SluiceError} `BUDGET_NOT_FOUND`; `INVALID_ARGUMENT` when no file or program declares it.
 */
export async function forgetBudgetChanges(db: Queryable, name: string, by: string): Promise<void> {
  if (!isName(checkText(name, 'budget'))) throw await unknown(db, name)
  if (await resetBudget(db, name, by)) return
  await getBudgetLimits(db, name)
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `budget ${name} was created by an operator, and no file or program declares it, so it cannot be reset. Delete it with: sluice budgets delete ${name}`,
  )
}

/**
 * Removes a budget that has left the file. One that a file or a program still names is there again when that starts.
 *
 * @throws {SluiceError} `BUDGET_NOT_FOUND`; `BUDGET_IN_USE`, which names the tasks that use it, and pools that run them.
 */
export async function removeBudget(db: Queryable, name: string): Promise<void> {
  if (!isName(checkText(name, 'budget'))) throw await unknown(db, name)
  const { found, tasks, pools, jobs } = await deleteBudget(db, name)
  if (!found) throw await unknown(db, name)
  if (tasks.length === 0 && jobs === 0) return
  const named = `${pools.length === 1 ? 'pool' : 'pools'} ${pools.join(', ')}`
  const runners = pools.length === 0 ? '' : `, for which ${named} may start workers`
  const wayOut = pools.length === 0 ? '' : `; max: 0 keeps ${named} from starting any`
  const drawing = jobs === 1 ? '1 running job uses it' : `${jobs} running jobs use it`
  const users = tasks.length === 0 ? drawing : `used by ${tasks.join(', ')}${runners}`
  throw new SluiceError(
    'BUDGET_IN_USE',
    `budget ${name} cannot be deleted: ${users}. Remove it from their uses and let their jobs end first${wayOut}`,
    { details: { name, tasks, pools, jobs } },
  )
}

/** What operators may change of a budget, as it is. */
export interface BudgetLimits extends Omit<BudgetValues, 'capacity'> {
  readonly capacity: number | null
  /** By the key of the device, where an operator has set one. */
  readonly limits: Readonly<Record<string, number>>
}

/** @throws {SluiceError} `BUDGET_NOT_FOUND`. */
export async function getBudgetLimits(db: Queryable, name: string): Promise<BudgetLimits> {
  const budget = (await listBudgets(db)).find((each) => each.name === name)
  if (budget === undefined) throw await unknown(db, name)
  const limited = (await listDevices(db)).filter((device) => device.budget === name && device.limit !== null)
  const limits = Object.fromEntries(limited.map(({ key, limit }) => [key, limit!]))
  return { ...pickStored(BUDGET_FIELDS, budget), limits }
}

async function unknown(db: Queryable, name: string) {
  return unknownBudget(name, await listBudgetNames(db))
}

/** Limits by key. A name stands for the devices of that name on every machine. */
async function resolveLimits(
  db: Queryable,
  { name: budget, bytes }: StoredBudget,
  limits: NonNullable<BudgetChange['limits']>,
): Promise<NonNullable<BudgetChange['limits']>> {
  const devices = (await listDevices(db)).filter((device) => device.budget === budget)
  const byKey: Record<string, number | null> = Object.create(null)
  for (const [named, limit] of Object.entries(limits)) {
    const exact = devices.filter(({ key }) => key === named)
    const meant = exact.length > 0 ? exact : devices.filter(({ name }) => name === named)
    const there = devices.map(({ key }) => key).join(', ') || 'none yet, because no worker has offered one'
    if (meant.length === 0)
      throw invalidArgument('limits', named, `the key or the name of a device of budget ${budget}: ${there}`)
    checkEffect(named, limit, meant, bytes)
    for (const { key } of meant) byKey[key] = limit
  }
  return byKey
}

/** A limit above the capacity would have no effect, so it is a mistake, or meant for another device. */
function checkEffect(
  named: string,
  limit: number | null,
  devices: readonly StoredDevice[],
  bytes: boolean,
): void {
  const largest = Math.max(...devices.map(({ total }) => total ?? Number.POSITIVE_INFINITY))
  if (limit === null || limit <= largest) return
  const { key } = devices.find(({ total }) => total === largest)!
  const has = formatQuantity(largest, bytes)
  throw invalidBudget(
    `limits.${named}`,
    `${formatQuantity(limit, bytes)} is more than the ${has} that ${key} has: use at most ${has}, or null for no limit`,
  )
}

function invalidBudget(argument: string, why: string): SluiceError {
  return new SluiceError('INVALID_ARGUMENT', `${argument}: ${why}`, { details: { argument } })
}

function checked(change: OperatorBudgetChange): BudgetChange {
  checkOptions(change, OPTIONS, 'change')
  if (Object.values(change).every((value) => value === undefined))
    throw invalidArgument('change', change, `an object with any of ${OPTIONS.join(', ')}`)
  const { limits, ...fields } = change
  if (limits !== undefined && (typeof limits !== 'object' || limits === null || Array.isArray(limits)))
    throw invalidArgument('limits', limits, 'an object of amounts by the key or the name of a device')
  return {
    ...readChange(BUDGET_FIELDS, fields),
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
