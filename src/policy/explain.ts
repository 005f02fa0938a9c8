import type { Verdict } from './decision.ts'
import { type Demand, leftOf } from './demand.ts'
import { drainMs, EASE, keeperOf, type Placement, type Terms } from './pack.ts'
import { type Copy, type PlacementState, roomFor } from './placement-state.ts'
import { servingCopies } from './replicate.ts'

/** That all copies of its model are busy, or are another worker's. `undefined` when there are none, or one is idle. */
export function explainBusy(demand: Demand, state: PlacementState): Verdict | undefined {
  const { model } = demand
  if (model === null) return undefined
  const serving = servingCopies(demand, state)
  const here = serving.filter((copy) => copy.mine)
  const copies = here.length > 0 ? here : serving
  const devices = [...new Set(copies.flatMap(({ shares }) => shares.map(({ device }) => device)))]
  if (here.length > 0)
    return here.every(({ running }) => running > 0) ? { kind: 'parallel', model, devices } : undefined
  return serving.length > 0 ? { kind: 'warm-elsewhere', model, devices } : undefined
}

/** Why a demand that could start does not, given the best devices there are for it. */
export function explain(demand: Demand, placements: readonly Placement[] | undefined, terms: Terms): Verdict {
  const { state } = terms
  const waits = placements?.some(({ ease }) => ease === EASE.unload || ease === EASE.drain) ?? false
  const busy = waits ? undefined : explainBusy(demand, state)
  if (busy !== undefined) return busy
  if (placements === undefined) return tooBig(demand, state)
  const hardest = placements.reduce((one, other) => (other.ease > one.ease ? other : one), placements[0]!)
  if (hardest === undefined) return { kind: 'no-capacity' }
  const { deviceBudget, need: own, victims } = hardest
  const where = { budget: deviceBudget.budget, device: deviceBudget.device }
  const by = [...new Set((victims.length > 0 ? victims : deviceBudget.copies).map(({ model }) => model))]
  const need = own.resident + own.perJob
  const keeper =
    deviceBudget.room >= need && roomFor(demand, deviceBudget) < need
      ? keeperOf(demand, deviceBudget)
      : undefined
  if (keeper !== undefined) return { kind: 'behind', model: keeper.model, device: deviceBudget.device }
  if (hardest.ease === EASE.unload || hardest.ease === EASE.drain) return { kind: 'next', ...where, by }
  return {
    kind: 'held',
    ...where,
    need,
    room: deviceBudget.room,
    by,
    until: estimateOf(demand, hardest, terms),
  }
}

/**
 * When it starts, by the learned times: each copy in its way has served its turn or run out of jobs, and then its model is loaded. What
 * comes meanwhile is not known, so this is an estimate: bench/policy/estimates.test.ts has how far off it is.
 */
function estimateOf({ times, model }: Demand, { victims, until }: Placement, terms: Terms): number | null {
  if (until === null) return null
  const { now } = terms.state
  const empty = Math.max(now, ...victims.map((copy) => now + workMs(copy, terms)))
  return Math.min(until, empty) + (model === null ? 0 : times.loadMs)
}

/** Until a copy has no more jobs, if none come. */
function workMs(copy: Copy, terms: Terms): number {
  const running = copy.running > 0 ? drainMs(copy, terms) : 0
  const owner = terms.ownerOf(copy.model)
  if (owner === undefined) return running
  const slots = Math.max(1, servingCopies(owner, terms.state).length) * owner.queues[0]!.view.parallel
  return running + (leftOf(owner) * owner.times.runMs) / slots
}

/** The first ask that no set of devices here could ever meet. */
function tooBig(demand: Demand, state: PlacementState): Verdict {
  for (const { budget, devices, resident, perJob } of demand.needs) {
    const deviceBudgets = state.deviceBudgets(budget)
    const need = resident + perJob
    if (deviceBudgets.filter(({ capacity }) => capacity >= need).length >= devices) continue
    const largest = Math.max(0, ...deviceBudgets.map(({ capacity }) => capacity))
    return { kind: 'too-big', budget, need, devices, largest, offered: deviceBudgets.length }
  }
  // Large enough there are, but each has a copy of the model already.
  return { kind: 'parallel', model: demand.model ?? '', devices: [] }
}
