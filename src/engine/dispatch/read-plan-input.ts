import type { ResolvedUses, StoredAmount } from '../../model/amount.ts'
import { ownValue } from '../../model/own-value.ts'
import {
  type Need,
  type PlanInput,
  type QueueView,
  type ResidentView,
  UNKNOWN_MODEL,
} from '../../policy/plan-input.ts'
import type { StoredPlanInput, StoredQueue } from '../../store/load-plan-input.ts'

/** Converts what the database reports for the policy. Copies are identified by their index among the stored ones. */
export function readPlanInput(
  stored: StoredPlanInput,
  workerId: string,
  free: number,
  most: ReadonlyMap<number, number>,
): PlanInput {
  const kinds = new Map(stored.budgets.map(({ name, kind }) => [name, kind]))
  return {
    now: stored.now,
    free,
    devices: stored.devices,
    shared: new Map(
      stored.budgets.filter(({ kind }) => kind === 'shared').map(({ name, room }) => [name, room]),
    ),
    residents: stored.residents.map((copy, index): ResidentView => {
      const { model, shares, loadedAt, unloading, running, idleSince, pinned, worker } = copy
      const mine = worker === workerId
      return { id: String(index), model, shares, mine, loadedAt, unloading, running, idleSince, pinned }
    }),
    queues: stored.queues.map((queue) => readQueue(queue, stored, kinds, most.get(queue.class) ?? 0)),
    models: new Map(
      Object.entries(stored.models).map(([name, { loadMs, runMs, restMs }]) => [
        name,
        { loadMs: loadMs ?? UNKNOWN_MODEL.loadMs, runMs: runMs ?? UNKNOWN_MODEL.runMs, restMs },
      ]),
    ),
    rules: new Map(stored.budgets.map(({ name, quantum, maxWaitMs }) => [name, { quantum, maxWaitMs }])),
  }
}

function readQueue(
  queue: StoredQueue,
  stored: StoredPlanInput,
  kinds: ReadonlyMap<string, 'shared' | 'device'>,
  most: number,
): QueueView {
  const isDevice = (budget: string) => kinds.get(budget) !== 'shared'
  const uses = queue.own?.uses ?? queue.uses ?? {}
  // Without a device, no model can be loaded, so its jobs are like any others.
  const model = Object.keys(uses).some(isDevice) ? queue.model : null
  const seen = model === null ? {} : (ownValue(stored.models, model)?.amounts ?? {})
  const askOf = ([budget, amount]: [string, StoredAmount]): Need[] => {
    if (typeof amount === 'string') return []
    const { devices, each } = amount
    // The measured need of a model applies if it exceeds the declared one.
    return [{ budget, devices, each: isDevice(budget) ? Math.max(each, ownValue(seen, budget) ?? 0) : each }]
  }
  const asks = Object.entries(uses).flatMap(askOf)
  const perJob = Object.entries(queue.own?.perJob ?? queue.perJob ?? {}).flatMap(([budget, amount]) =>
    typeof amount === 'string' ? [] : [{ budget, ...amount }],
  )
  return {
    classId: queue.class,
    task: queue.task,
    model,
    // Jobs with unknown amounts cannot be planned.
    depth: queue.expressed && queue.own === null ? 0 : queue.depth,
    head: { priority: queue.priority, waitingSince: queue.since, uses: queue.own === null ? null : asks },
    parallel: queue.parallel,
    uses: asks,
    perJob,
    most: Math.max(0, Math.min(queue.most, most)),
  }
}

/** What each job of a class uses of shared budgets. */
export function sharedOf(queue: StoredQueue, stored: StoredPlanInput): Record<string, number> {
  const shared = new Map<string, number>()
  const own: ResolvedUses | null = queue.own
  for (const amounts of [own?.uses ?? queue.uses, own?.perJob ?? queue.perJob]) {
    for (const [budget, amount] of Object.entries(amounts ?? {})) {
      const isShared = stored.budgets.some(({ name, kind }) => name === budget && kind === 'shared')
      if (isShared && typeof amount !== 'string') shared.set(budget, (shared.get(budget) ?? 0) + amount.each)
    }
  }
  return Object.fromEntries(shared)
}
