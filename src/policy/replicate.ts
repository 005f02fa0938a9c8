import { type Demand, leftOf } from './demand.ts'
import { SPARE_LOADS } from './may-evict.ts'
import type { Copy, PlacementState } from './placement-state.ts'

/**
 * Copies that will serve what waits, here and on other workers.
 *
 * One elsewhere that has been idle for longer than a load takes, though jobs wait, does not count: its worker is full,
 * or gone, or may not take these jobs.
 */
export function servingCopies(demand: Demand, state: PlacementState): Copy[] {
  return state.copiesOf(demand.model!).filter((copy) => {
    if (copy.stopped) return false
    if (copy.mine) return copy.usable
    if (copy.running > 0) return true
    const idleSince = copy.view?.idleSince ?? state.now
    return state.now - Math.max(idleSince, demand.waitingSince) < demand.times.loadMs
  })
}

/**
 * Whether what waits keeps its copies busy for long enough that one more pays: for three of its loads, and for a quantum of the loads that bring
 * back what has to go for it.
 *
 * @param reloadMs Of the models that go: their load times, times how likely they are needed soon.
 */
export function paysAnother(demand: Demand, state: PlacementState, reloadMs: number): boolean {
  const { parallel } = demand.queues[0]!.view
  const slots = Math.max(1, servingCopies(demand, state).length) * parallel
  const { times, rules } = demand
  const cost = SPARE_LOADS * times.loadMs + rules.quantum * reloadMs
  return (leftOf(demand) * times.runMs) / slots > cost
}
