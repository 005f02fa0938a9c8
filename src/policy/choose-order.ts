import { type Demand, depthOf } from './demand.ts'
import type { Floor } from './floor.ts'
import { holdEnd } from './hold.ts'

/**
 * The order in which demands choose.
 *
 * Highest priority first. Then those over the maximum wait, longest wait first, unless they have had their turn: a
 * model whose copies have served their time goes behind the ones that wait for it to end. Then what is loaded, then
 * the deepest queue.
 */
export function inOrder(demands: readonly Demand[], floor: Floor): Demand[] {
  const keys = new Map(
    demands.map((demand) => [demand, { turn: turnOf(demand, floor), depth: depthOf(demand) }]),
  )
  return [...demands].sort((one, other) => {
    if (one.priority !== other.priority) return other.priority - one.priority
    const [mine, its] = [keys.get(one)!, keys.get(other)!]
    if (mine.turn !== its.turn) return mine.turn - its.turn
    if (mine.turn !== 0 && mine.depth !== its.depth) return its.depth - mine.depth
    return (
      one.waitingSince - other.waitingSince || one.queues[0]!.view.classId - other.queues[0]!.view.classId
    )
  })
}

function turnOf(demand: Demand, floor: Floor): 0 | 1 | 2 {
  const copies =
    demand.model === null ? [] : floor.copiesOf(demand.model).filter((copy) => copy.usable && !copy.stopped)
  const served = copies.length > 0
  const spent =
    served && copies.every((copy) => (holdEnd(demand, copy) ?? Number.POSITIVE_INFINITY) <= floor.now)
  if (demand.due && !spent) return 0
  return served ? 1 : 2
}
