import type { Verdict } from './decision.ts'
import type { Demand } from './demand.ts'
import { type Floor, roomFor } from './floor.ts'
import { EASE, keeperOf, type Way } from './pack.ts'
import { servingCopies } from './replicate.ts'

/** Why a demand that could start does not, given the best devices there are for it. */
export function explain(demand: Demand, ways: readonly Way[] | undefined, floor: Floor): Verdict {
  const busy = demand.model === null ? [] : servingCopies(demand, floor)
  const here = busy.filter((copy) => copy.mine)
  const waits = ways?.some(({ ease }) => ease === EASE.unload || ease === EASE.drain) ?? false
  if (!waits && demand.model !== null && busy.length > 0) {
    const devices = [
      ...new Set((here.length > 0 ? here : busy).flatMap(({ shares }) => shares.map(({ device }) => device))),
    ]
    if (here.length > 0 && here.every((copy) => copy.running > 0))
      return { kind: 'parallel', model: demand.model, devices }
    if (here.length === 0) return { kind: 'warm-elsewhere', model: demand.model, devices }
  }
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
