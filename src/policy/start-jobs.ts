import type { Place, Start } from './decision.ts'
import type { Demand, Queue } from './demand.ts'
import { type Copy, type Floor, roomBeside, roomFor, type Spot } from './floor.ts'
import type { Way } from './pack.ts'

/**
 * Starts as many jobs on a copy as it, the worker, the devices and the shared budgets have room for.
 *
 * Among classes of one model the one whose head goes first gives its job first, then they take turns: what is behind a
 * head is not known. A class with a lower priority at its head gives nothing before the others have no more.
 */
export function startOnCopy(floor: Floor, demand: Demand, copy: Copy): Start[] {
  const counts = new Map<Queue, number>()
  const full = new Set<Queue>()
  for (let next = nextQueue(demand, counts, full); next !== undefined; ) {
    if (takeJob(floor, demand, copy, next)) counts.set(next, (counts.get(next) ?? 0) + 1)
    else full.add(next)
    next = nextQueue(demand, counts, full)
  }
  return [...counts].map(([queue, count]) => ({
    classId: queue.view.classId,
    count,
    model: demand.model,
    places: copy.shares.map(({ budget, device, amount }) => ({
      budget,
      device,
      resident: copy.view === undefined ? amount : 0,
      perJob: queue.perJob.find((ask) => ask.budget === budget)?.each ?? 0,
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

function takeJob(floor: Floor, demand: Demand, copy: Copy, queue: Queue): boolean {
  if (floor.free < 1 || copy.running >= queue.view.parallel) return false
  if (queue.shared.some(({ budget, each }) => floor.shared.get(budget)! < each)) return false
  const spots: [Spot, number][] = []
  const roomOf = copy.view === undefined ? roomFor : roomBeside
  for (const { budget, each } of queue.perJob) {
    const shares = copy.shares.filter((share) => share.budget === budget)
    if (shares.length === 0) return false
    for (const share of shares) {
      const spot = floor.spotOf(share)!
      if (roomOf(demand, spot) < each) return false
      spots.push([spot, each])
    }
  }
  for (const [spot, each] of spots) spot.room -= each
  takeShared(floor, queue, 1)
  floor.free -= 1
  copy.running += 1
  queue.left -= 1
  return true
}

function takeShared(floor: Floor, queue: Queue, count: number): void {
  for (const { budget, each } of queue.shared)
    floor.shared.set(budget, Math.max(0, floor.shared.get(budget)! - count * each))
}

/** Starts as many jobs without a model as fit on these devices. */
export function startOnDevices(floor: Floor, demand: Demand, ways: readonly Way[]): Start | undefined {
  const queue = demand.queues[0]!
  let count = Math.min(floor.free, queue.left)
  for (const { spot, ask } of ways) count = Math.min(count, timesIn(roomFor(demand, spot), ask.perJob))
  for (const { budget, each } of queue.shared)
    count = Math.min(count, timesIn(floor.shared.get(budget)!, each))
  if (count < 1) return undefined
  for (const { spot, ask } of ways) spot.room = Math.max(0, spot.room - count * ask.perJob)
  takeShared(floor, queue, count)
  floor.free -= count
  queue.left -= count
  const places: Place[] = ways.map(({ spot, ask }) => ({
    budget: spot.budget,
    device: spot.device,
    resident: 0,
    perJob: ask.perJob,
  }))
  return { classId: queue.view.classId, count, model: null, places, newResident: false }
}

/** How often an amount goes into a room. Not once too often because of rounding. */
function timesIn(room: number, each: number): number {
  if (each <= 0 || room === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY
  const times = Math.floor(room / each)
  return times * each > room ? times - 1 : times
}
