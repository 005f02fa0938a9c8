import type { DeviceUse, Start } from './decision.ts'
import type { Demand, Queue } from './demand.ts'
import type { Placement } from './pack.ts'
import { type Copy, type DeviceBudget, type PlacementState, roomBeside, roomFor } from './placement-state.ts'

/**
 * Starts as many jobs on a copy as it, the worker, the devices and the shared budgets have room for.
 *
 * Among classes of one model the one whose head goes first gives its job first, then they take turns: what is behind a
 * head is not known. A class with a lower priority at its head gives nothing before the others have no more.
 */
export function startOnCopy(state: PlacementState, demand: Demand, copy: Copy): Start[] {
  const counts = new Map<Queue, number>()
  const full = new Set<Queue>()
  for (let next = nextQueue(demand, counts, full); next !== undefined; ) {
    if (takeJob(state, demand, copy, next)) counts.set(next, (counts.get(next) ?? 0) + 1)
    else full.add(next)
    next = nextQueue(demand, counts, full)
  }
  return [...counts].map(([queue, count]) => ({
    classId: queue.view.classId,
    count,
    model: demand.model,
    deviceUses: copy.shares.map(({ budget, device, amount }) => ({
      budget,
      device,
      resident: copy.view === undefined ? amount : 0,
      perJob: queue.perJob.find((need) => need.budget === budget)?.each ?? 0,
    })),
    newResident: copy.view === undefined,
  }))
}

function nextQueue(
  demand: Demand,
  counts: ReadonlyMap<Queue, number>,
  full: ReadonlySet<Queue>,
): Queue | undefined {
  let best: Queue | undefined
  for (const queue of demand.queues) {
    if (queue.left === 0 || full.has(queue)) continue
    if (best === undefined) best = queue
    else if (queue.view.head.priority < best.view.head.priority) break
    else if ((counts.get(queue) ?? 0) < (counts.get(best) ?? 0)) best = queue
  }
  return best
}

function takeJob(state: PlacementState, demand: Demand, copy: Copy, queue: Queue): boolean {
  if (state.free < 1 || copy.running >= queue.view.parallel) return false
  if (queue.shared.some(({ budget, each }) => state.shared.get(budget)! < each)) return false
  const deviceBudgets: [DeviceBudget, number][] = []
  const roomOf = copy.view === undefined ? roomFor : roomBeside
  for (const { budget, each } of queue.perJob) {
    const shares = copy.shares.filter((share) => share.budget === budget)
    if (shares.length === 0) return false
    for (const share of shares) {
      const deviceBudget = state.deviceBudgetOf(share)!
      if (roomOf(demand, deviceBudget) < each) return false
      deviceBudgets.push([deviceBudget, each])
    }
  }
  for (const [deviceBudget, each] of deviceBudgets) deviceBudget.room -= each
  takeShared(state, queue, 1)
  state.free -= 1
  copy.running += 1
  queue.left -= 1
  return true
}

function takeShared(state: PlacementState, queue: Queue, count: number): void {
  for (const { budget, each } of queue.shared)
    state.shared.set(budget, Math.max(0, state.shared.get(budget)! - count * each))
}

/** Starts as many jobs without a model as fit on these devices. */
export function startOnDevices(
  state: PlacementState,
  demand: Demand,
  placements: readonly Placement[],
): Start | undefined {
  const queue = demand.queues[0]!
  let count = Math.min(state.free, queue.left)
  for (const { deviceBudget, need } of placements)
    count = Math.min(count, timesIn(roomFor(demand, deviceBudget), need.perJob))
  for (const { budget, each } of queue.shared)
    count = Math.min(count, timesIn(state.shared.get(budget)!, each))
  if (count < 1) return undefined
  for (const { deviceBudget, need } of placements)
    deviceBudget.room = Math.max(0, deviceBudget.room - count * need.perJob)
  takeShared(state, queue, count)
  state.free -= count
  queue.left -= count
  const deviceUses: DeviceUse[] = placements.map(({ deviceBudget, need }) => ({
    budget: deviceBudget.budget,
    device: deviceBudget.device,
    resident: 0,
    perJob: need.perJob,
  }))
  return { classId: queue.view.classId, count, model: null, deviceUses, newResident: false }
}

/** How often an amount goes into a room. Not once too often because of rounding. */
function timesIn(room: number, each: number): number {
  if (each <= 0 || room === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY
  const times = Math.floor(room / each)
  return times * each > room ? times - 1 : times
}
