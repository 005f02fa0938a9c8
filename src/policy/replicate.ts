import { type Demand, leftOf } from './demand.ts'
import type { Copy, Floor } from './floor.ts'
import { SPARE_LOADS } from './hold.ts'

/**
 * Copies that will serve what waits, here and on other workers.
 *
 * One elsewhere that has been idle for longer than a load takes, though jobs wait, does not count: its worker is full,
 * or gone, or may not take these jobs.
 */
export function servingCopies(demand: Demand, floor: Floor): Copy[] {
  return floor.copiesOf(demand.model!).filter((copy) => {
    if (copy.stopped) return false
    if (copy.mine) return copy.usable
    if (copy.running > 0) return true
    const idleSince = copy.view?.idleSince ?? floor.now
    return floor.now - Math.max(idleSince, demand.waitingSince) < demand.times.loadMs
  })
}

/**
 * Whether what waits takes its copies longer than loading one more would.
 *
 * @param reloadMs What it would take to have back the models that go for it.
 */
export function paysAnother(demand: Demand, floor: Floor, reloadMs: number): boolean {
  const { parallel } = demand.queues[0]!.view
  const slots = Math.max(1, servingCopies(demand, floor).length) * parallel
  const { loadMs, runMs } = demand.times
  const cost = reloadMs === 0 ? loadMs : SPARE_LOADS * (loadMs + reloadMs)
  return (leftOf(demand) * runMs) / slots > cost
}
