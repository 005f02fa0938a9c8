import { SMALLEST_SIZE } from '../model/amount.ts'
import type { BudgetSettings } from '../model/budget.ts'
import type { AnyTask } from '../worker/task.ts'

/** A task that will not do what its author thinks. */
export interface BudgetWarning {
  readonly task: string
  readonly message: string
}

/**
 * What is odd about tasks with models and budgets, each with its consequence.
 *
 * @param known Names of budgets that are there beside `budgets`; another program may bring more.
 */
export function budgetWarnings(
  tasks: readonly AnyTask[],
  budgets: ReadonlyMap<string, BudgetSettings>,
  known: readonly string[],
): BudgetWarning[] {
  return tasks.flatMap((task) => [
    ...withoutUses(task),
    ...Object.keys({ ...task.uses, ...task.perJob }).flatMap((name) =>
      aboutBudget(task, name, budgets, known),
    ),
  ])
}

function withoutUses({ name, model, uses, perJob }: AnyTask): BudgetWarning[] {
  if (model !== undefined && uses === undefined) {
    const message = `model ${model} is given without uses: its memory counts against nothing, so any number of models is loaded at once; add uses, such as uses: { vram: 5GB }`
    return [{ task: name, message }]
  }
  if (perJob !== undefined && uses === undefined)
    return [{ task: name, message: 'perJob is given without uses: it is not counted; write uses' }]
  return []
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
      `uses budget ${name}, which nobody has declared (there are: ${there}): its jobs wait until somebody does`,
    )
  }
  const sizes = budget.kind === 'shared' ? [budget.capacity ?? 0] : Object.values(budget.devices)
  if (!budget.auto && sizes.every((size) => size === 0))
    return warn(`uses budget ${name}, of which there is 0: none of its jobs can start`)
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
    `needs more of budget ${name} than there is on ${devices === 1 ? 'any device' : `${devices} devices`}: its jobs are refused`,
  )
}
