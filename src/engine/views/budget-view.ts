import { inSnapshot, type Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { type BudgetQueue, listBudgetQueues } from '../../store/list-budget-queues.ts'
import { listBudgets, type StoredBudget } from '../../store/list-budgets.ts'
import { type CopyOnDevice, listCopies } from '../../store/list-copies.ts'
import { listDevices, type StoredDevice } from '../../store/list-devices.ts'
import { listModels, type StoredModel } from '../../store/list-models.ts'
import { type Ahead, type NextOnDevice, type QueueOutlook, readBudgetOutlook } from './budget-outlook.ts'

export interface BudgetView extends StoredBudget {
  /** Of a shared one: a single one with the key ''. */
  readonly devices: readonly DeviceView[]
}

export interface DeviceView extends Omit<StoredDevice, 'budget'> {
  /** Models on it, loaded or about to be. */
  readonly copies: readonly Omit<CopyOnDevice, 'budget' | 'device'>[]
  /** What waits for it and why, what is closest to its start first. */
  readonly next: readonly NextOnDevice[]
}

/** What is known of a model, with what is loaded of it and what waits for it. */
export interface ModelView extends StoredModel {
  readonly copies: number
  readonly running: number
  /** Jobs that could start and wait. */
  readonly depth: number
  readonly oldestAt: Date | null
  readonly waitedMs: number
}

/** What waits in a task that draws from budgets, and what the policy makes of it. */
export interface QueueView extends Omit<BudgetQueue, 'classId'>, QueueOutlook {}

/** Budgets with their devices, models, and what waits for them. */
export interface BudgetsView {
  readonly budgets: readonly BudgetView[]
  readonly models: readonly ModelView[]
  readonly queues: readonly QueueView[]
}

/** The same without what comes next: for those who only count. */
export interface BudgetsState {
  readonly budgets: readonly StoredBudget[]
  readonly devices: readonly StoredDevice[]
  readonly copies: readonly CopyOnDevice[]
  readonly models: readonly ModelView[]
  readonly queues: readonly BudgetQueue[]
}

/** A depth is counted up to here for each task. By default no more than 500 wait. */
const EXACT_DEPTH = 1000

/** What there is, what is held of it, what is loaded and what waits, all at one time. Locks nothing, decides nothing. */
export async function readBudgets(db: Queryable): Promise<BudgetsState> {
  return inSnapshot(db, readState)
}

async function readState(db: Queryable): Promise<BudgetsState> {
  const copies = await listCopies(db)
  const queues = await listBudgetQueues(db, EXACT_DEPTH)
  return {
    budgets: await listBudgets(db),
    devices: await listDevices(db),
    copies,
    models: modelsOf(await listModels(db), copies, queues),
    queues,
  }
}

/** All there is to see of budgets; what comes next is what the policy of dispatch says now. */
export async function viewBudgets(db: Queryable): Promise<BudgetsView> {
  const { state, ahead } = await inSnapshot(db, async (tx) => {
    const state = await readState(tx)
    return { state, ahead: await readBudgetOutlook(tx, state.queues, state) }
  })
  return {
    budgets: state.budgets.map((budget) => withDevices(budget, state, ahead)),
    models: state.models,
    queues: state.queues.map(({ classId, ...queue }) => ({ ...queue, ...ahead.byClass.get(classId)! })),
  }
}

/** @throws {SluiceError} `BUDGET_NOT_FOUND`, which lists those there are. */
export async function viewBudget(db: Queryable, name: string): Promise<BudgetView> {
  const { budgets } = await viewBudgets(db)
  const found = budgets.find((budget) => budget.name === name)
  if (found !== undefined) return found
  throw unknownBudget(
    name,
    budgets.map((budget) => budget.name),
  )
}

export function unknownBudget(name: string, known: readonly string[]): SluiceError {
  const there = known.length === 0 ? 'none exist' : `existing budgets: ${known.join(', ')}`
  return new SluiceError('BUDGET_NOT_FOUND', `budget ${JSON.stringify(name)} does not exist; ${there}`, {
    details: { name },
  })
}

function withDevices(
  budget: StoredBudget,
  { devices, copies }: BudgetsState,
  { byDevice }: Ahead,
): BudgetView {
  const own = devices.filter((device) => device.budget === budget.name)
  return {
    ...budget,
    devices: own.map(({ budget: _, ...device }) => ({
      ...device,
      copies: copies
        .filter((copy) => copy.budget === budget.name && copy.device === device.key)
        .map(({ budget: __, device: ___, ...copy }) => copy),
      next: byDevice.get(device.key === '' ? budget.name : device.key) ?? [],
    })),
  }
}

/** All models that are known, loaded or waited for. */
function modelsOf(
  known: readonly StoredModel[],
  copies: readonly CopyOnDevice[],
  queues: readonly BudgetQueue[],
): ModelView[] {
  const named = new Map<string, StoredModel>(known.map((model) => [model.name, model]))
  for (const { model } of [...copies, ...queues])
    if (model !== null && !named.has(model)) named.set(model, { ...UNKNOWN, name: model })
  return [...named.values()]
    .sort((one, other) => (one.name < other.name ? -1 : 1))
    .map((model) => {
      // One row for each copy, however many devices and budgets it draws from.
      const own = new Map(
        copies
          .filter((copy) => copy.model === model.name)
          .map((copy) => [`${copy.worker}\u0000${copy.devices.join('\u0000')}`, copy]),
      )
      const waiting = queues.filter((queue) => queue.model === model.name)
      const oldest = waiting[0]
      return {
        ...model,
        copies: own.size,
        running: [...own.values()].reduce((sum, { running }) => sum + running, 0),
        depth: waiting.reduce((sum, { depth }) => sum + depth, 0),
        oldestAt: oldest?.oldestAt ?? null,
        waitedMs: oldest?.waitedMs ?? 0,
      }
    })
}

const UNKNOWN: Omit<StoredModel, 'name'> = {
  loadMs: null,
  runMs: null,
  amounts: {},
  pinned: false,
  loads: 0,
  loadTotalMs: 0,
  swapsAvoided: 0,
  outOfMemory: 0,
}
