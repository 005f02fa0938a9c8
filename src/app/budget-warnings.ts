import { isDeepStrictEqual } from 'node:util'
import { SMALLEST_SIZE } from '../model/amount.ts'
import type { BudgetSettings } from '../model/budget.ts'
import type { AnyTask } from '../worker/task.ts'

/** A task that will not behave as its author probably expects. */
export interface BudgetWarning {
  readonly task: string
  readonly message: string
}

/**
 * Finds unusual combinations of models and budgets in tasks, and describes their consequences.
 *
 * @param known Names of existing budgets beside `budgets`. Other programs may declare more.
 */
export function budgetWarnings(
  tasks: readonly AnyTask[],
  budgets: ReadonlyMap<string, BudgetSettings>,
  known: readonly string[],
): BudgetWarning[] {
  return tasks.flatMap((task, at) => [
    ...withoutUses(task),
    ...manyPrograms(task),
    ...ofSharedModel(task, tasks.slice(0, at), budgets),
    ...Object.keys({ ...task.uses, ...task.perJob }).flatMap((name) =>
      aboutBudget(task, name, budgets, known),
    ),
  ])
}

function withoutUses({ name, model, uses }: AnyTask): BudgetWarning[] {
  if (model === undefined || uses !== undefined) return []
  const message = `model ${model} has no uses, so its memory is not counted and any number of models can be loaded at once; add uses, such as uses: { vram: 5GB }`
  return [{ task: name, message }]
}

function manyPrograms({ name, execution, model, uses, perJob, parallel }: AnyTask): BudgetWarning[] {
  if (execution !== 'exec' || model === undefined || uses === undefined || parallel === 1) return []
  if (perJob !== undefined) return []
  const message = `runs ${parallel} programs of model ${model} at once, but counts its memory once; let them share one model server, or set perJob to what each program loads`
  return [{ task: name, message }]
}

/** Programs reject this when they start. A check of the file alone reports it here. */
function ofSharedModel(
  task: AnyTask,
  before: readonly AnyTask[],
  budgets: ReadonlyMap<string, BudgetSettings>,
): BudgetWarning[] {
  if (task.model === undefined) return []
  const other = before.find(({ model }) => model === task.model)
  if (other === undefined) return []
  return [...budgets]
    .filter(
      ([name, { kind }]) => kind === 'device' && !isDeepStrictEqual(task.uses?.[name], other.uses?.[name]),
    )
    .map(([name]) => ({
      task: task.name,
      message: `differs from task ${other.name} in how much of ${name} model ${task.model} uses, and will be rejected when it starts, because a model is loaded once for both`,
    }))
}

function aboutBudget(
  task: AnyTask,
  name: string,
  budgets: ReadonlyMap<string, BudgetSettings>,
  known: readonly string[],
): BudgetWarning[] {
  const warn = (message: string): BudgetWarning[] => [{ task: task.name, message }]
  const budget = budgets.get(name)
  if (budget === undefined) {
    if (known.includes(name)) return []
    const there = [...budgets.keys(), ...known].join(', ') || 'none'
    return warn(
      `uses budget ${name}, which is not declared (declared: ${there}), so its jobs wait until it is`,
    )
  }
  const sizes = budget.kind === 'shared' ? [budget.capacity ?? 0] : Object.values(budget.devices)
  if (!budget.auto && sizes.every((size) => size === 0))
    return warn(`uses budget ${name}, which has an amount of 0, so none of its jobs can start`)
  const [uses, perJob] = [task.uses?.[name], task.perJob?.[name]]
  const small = budget.bytes
    ? [uses, perJob].find((each) => typeof each === 'object' && each.each > 0 && each.each < SMALLEST_SIZE)
    : undefined
  if (typeof small === 'object')
    return warn(
      `uses ${small.each} bytes of budget ${name}, whose amounts are sizes: write a unit, such as ${small.each}GB`,
    )
  if (typeof uses === 'string' || typeof perJob === 'string' || budget.auto) return []
  const need = (uses?.each ?? 0) + (perJob?.each ?? 0)
  const devices = Math.max(uses?.devices ?? 1, perJob?.devices ?? 1)
  const fitting = sizes.filter((size) => size >= need).length
  if (budget.kind === 'shared' && devices > 1)
    return warn(`uses ${devices} devices of budget ${name}, which has none: give one amount`)
  if (fitting >= devices) return []
  return warn(
    `needs more of budget ${name} than ${devices === 1 ? 'any device' : `${devices} devices`} has, so its jobs are rejected`,
  )
}
