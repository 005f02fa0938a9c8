import type { Verdict } from './decision.ts'
import { type Demand, leftOf } from './demand.ts'
import { type Copy, type Floor, roomFor } from './floor.ts'
import { drainMs, EASE, keeperOf, type Terms, type Way } from './pack.ts'
import { servingCopies } from './replicate.ts'

/** That all copies of its model are busy, or are another worker's. `undefined` when there are none, or one is idle. */
export function explainBusy(demand: Demand, floor: Floor): Verdict | undefined {
  const { model } = demand
  if (model === null) return undefined
  const serving = servingCopies(demand, floor)
  const here = serving.filter((copy) => copy.mine)
  const copies = here.length > 0 ? here : serving
  const devices = [...new Set(copies.flatMap(({ shares }) => shares.map(({ device }) => device)))]
  if (here.length > 0)
    return here.every(({ running }) => running > 0) ? { kind: 'parallel', model, devices } : undefined
  return serving.length > 0 ? { kind: 'warm-elsewhere', model, devices } : undefined
}

/** Why a demand that could start does not, given the best devices there are for it. */
export function explain(demand: Demand, ways: readonly Way[] | undefined, terms: Terms): Verdict {
  const { floor } = terms
  const waits = ways?.some(({ ease }) => ease === EASE.unload || ease === EASE.drain) ?? false
  const busy = waits ? undefined : explainBusy(demand, floor)
  if (busy !== undefined) return busy
  if (ways === undefined) return tooBig(demand, floor)
  const hardest = ways.reduce((one, other) => (other.ease > one.ease ? other : one), ways[0]!)
  if (hardest === undefined) return { kind: 'no-capacity' }
  const { spot, ask, victims } = hardest
  const where = { budget: spot.budget, device: spot.device }
  const by = [...new Set((victims.length > 0 ? victims : spot.copies).map(({ model }) => model))]
  const need = ask.resident + ask.perJob
  const keeper = spot.room >= need && roomFor(demand, spot) < need ? keeperOf(demand, spot) : undefined
  if (keeper !== undefined) return { kind: 'behind', model: keeper.model, device: spot.device }
  if (hardest.ease === EASE.unload || hardest.ease === EASE.drain) return { kind: 'next', ...where, by }
  return { kind: 'held', ...where, need, room: spot.room, by, until: estimateOf(demand, hardest, terms) }
}

/**
 * When it starts, by the learned times: each copy in its way has served its turn or run out of jobs, and then its model is loaded. What
 * comes meanwhile is not known, so this is an estimate: estimates.test.ts has how far off it is.
 */
function estimateOf({ times, model }: Demand, { victims, until }: Way, terms: Terms): number | null {
  if (until === null) return null
  const { now } = terms.floor
  const empty = Math.max(now, ...victims.map((copy) => now + workMs(copy, terms)))
  return Math.min(until, empty) + (model === null ? 0 : times.loadMs)
}

/** Until a copy has no more jobs, if none come. */
function workMs(copy: Copy, terms: Terms): number {
  const running = copy.running > 0 ? drainMs(copy, terms) : 0
  const owner = terms.ownerOf(copy.model)
  if (owner === undefined) return running
  const slots = Math.max(1, servingCopies(owner, terms.floor).length) * owner.queues[0]!.view.parallel
  return running + (leftOf(owner) * owner.times.runMs) / slots
}

/** The first ask that no set of devices here could ever meet. */
function tooBig(demand: Demand, floor: Floor): Verdict {
  for (const { budget, devices, resident, perJob } of demand.asks) {
    const spots = floor.spots(budget)
    const need = resident + perJob
    if (spots.filter(({ capacity }) => capacity >= need).length >= devices) continue
    const largest = Math.max(0, ...spots.map(({ capacity }) => capacity))
    return { kind: 'too-big', budget, need, devices, largest, offered: spots.length }
  }
  // Large enough there are, but each has a copy of the model already.
  return { kind: 'parallel', model: demand.model ?? '', devices: [] }
}
