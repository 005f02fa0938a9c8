import { isDeepStrictEqual } from 'node:util'
import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { PER_JOB_ALONE } from '../../model/amount.ts'
import { suggest } from '../../model/suggest.ts'
import type { TaskRecord } from '../../model/task-record.ts'
import { listBudgetNames } from '../../store/list-budget-names.ts'
import { loadTasks } from '../../store/load-tasks.ts'

/** A task whose settings differ between a worker and the database. */
export interface TaskDifference {
  readonly task: string
  /** Names of a task's options, as a worker writes them. */
  readonly fields: readonly string[]
}

export interface TaskComparison {
  readonly differing: readonly TaskDifference[]
  /** Tasks that are not registered yet. */
  readonly fresh: readonly TaskRecord[]
  /** The lane that each of them is in, or will be. */
  readonly places: readonly { readonly name: string; readonly lane: string }[]
}

/** What it is called by whoever writes a task; what follows from others is not compared. */
const FIELDS: readonly (readonly [field: keyof TaskRecord, name: string])[] = [
  ['lane', 'lane'],
  ['model', 'model'],
  ['requires', 'requires'],
  ['priority', 'priority'],
  ['approval', 'approval'],
  ['keys', 'keys'],
  ['laneFixed', 'laneFixed'],
  ['deadlineMs', 'deadline'],
  ['maxLosses', 'losses'],
  ['onLost', 'onLost'],
  ['uses', 'uses'],
  ['perJob', 'perJob'],
  ['parallel', 'parallel'],
]

/**
 * What a worker asks for in vain: tasks that are known otherwise, in what the worker says of them. Where it says no more
 * than the defaults it leaves the matter to whoever made the task known.
 *
 * @param plain A task of which nothing is said.
 * @throws {SluiceError} `BUDGET_NOT_FOUND` when a task that is new draws from a budget that nobody has declared: its jobs
 *   would be taken and wait for ever; `INVALID_ARGUMENT` when one has `perJob` and no `uses`.
 */
export async function compareTasks(
  db: Queryable,
  tasks: readonly TaskRecord[],
  plain: TaskRecord,
): Promise<TaskComparison> {
  const names = tasks.map(({ name }) => name)
  const known = new Map((await loadTasks(db, names)).map((task) => [task.name, task]))
  const fresh = tasks.filter(({ name }) => !known.has(name))
  if (fresh.length > 0) checkBudgets(fresh, await listBudgetNames(db))
  const differing = tasks.flatMap((task) => {
    const stored = known.get(task.name)
    if (stored === undefined) return []
    const fields = FIELDS.filter(
      ([field]) =>
        !isDeepStrictEqual(task[field], plain[field]) && !isDeepStrictEqual(task[field], stored[field]),
    ).map(([, name]) => name)
    return fields.length === 0 ? [] : [{ task: task.name, fields }]
  })
  const places = tasks.map(({ name, lane }) => ({ name, lane: known.get(name)?.placedIn ?? lane }))
  return { differing, fresh, places }
}

function checkBudgets(tasks: readonly TaskRecord[], budgets: readonly string[]): void {
  for (const { name, uses, perJob } of tasks) {
    if ((uses ?? null) === null && (perJob ?? null) !== null)
      throw new SluiceError('INVALID_ARGUMENT', `task ${name}: perJob ${PER_JOB_ALONE}`)
    const budget = Object.keys({ ...uses, ...perJob }).find((each) => !budgets.includes(each))
    if (budget === undefined) continue
    const near = suggest(budget, budgets)
    const advice = near === undefined ? '' : `; did you mean ${near}?`
    throw new SluiceError(
      'BUDGET_NOT_FOUND',
      `task ${name} uses budget ${budget}, which is not declared (declared: ${budgets.join(', ') || 'none'})${advice}: declare it under budgets in the config of the server, since a worker behind a server declares none`,
      { details: { name: budget, task: name } },
    )
  }
}
