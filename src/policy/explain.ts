import type { Verdict } from './decision.ts'
import type { Demand } from './demand.ts'
import { type Floor, roomFor } from './floor.ts'
import { EASE, keeperOf, type Way } from './pack.ts'
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
export function explain(demand: Demand, ways: readonly Way[] | undefined, floor: Floor): Verdict {
  const waits = ways?.some(({ ease }) => ease === EASE.unload || ease === EASE.drain) ?? false
  const busy = waits ? undefined : explainBusy(demand, floor)
  if (busy !== undefined) return busy
  if (ways === undefined) return tooBig(demand, floor)
  const hardest = ways.reduce((one, other) => (other.ease > one.ease ? other : one), ways[0]!)
  if (hardest === undefined) return { kind: 'no-capacity' }
  const { spot, ask, victims, until } = hardest
  const where = { budget: spot.budget, device: spot.device }
  const by = [...new Set((victims.length > 0 ? victims : spot.copies).map(({ model }) => model))]
  const need = ask.resident + ask.perJob
  const keeper = spot.room >= need && roomFor(demand, spot) < need ? keeperOf(demand, spot) : undefined
  if (keeper !== undefined) return { kind: 'behind', model: keeper.model, device: spot.device }
  if (hardest.ease === EASE.unload || hardest.ease === EASE.drain) return { kind: 'next', ...where, by }
  return { kind: 'held', ...where, need, room: spot.room, by, until }
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
