import { type Demand, depthOf, standingOf } from './demand.ts'
import { holdEnd } from './may-evict.ts'
import type { Copy, PlacementState } from './placement-state.ts'

/**
 * The order in which demands choose.
 *
 * Highest priority first. Then those that have waited for half of the maximum wait, by their standing, unless they have had
 * their turn: a model whose copies have served their time goes behind the ones that wait for it to end. Then what is
 * loaded, then the deepest queue.
 *
 * Why half: with the whole of it, rare models are served one by one between turns of a busy one, each for a reload of
 * that one too. From half on, the first that is due takes the others along (longest wait 0.55 instead of 0.71 times that
 * without a guard, with fewer loads, where one model has 95 % of the jobs and the device is busy for 80 % of the time).
 */
export function inOrder(demands: readonly Demand[], state: PlacementState): Demand[] {
  const keys = new Map(
    demands.map((demand) => [
      demand,
      { turn: turnOf(demand, state), depth: depthOf(demand), standing: standingOf(demand) },
    ]),
  )
  return [...demands].sort((one, other) => {
    if (one.priority !== other.priority) return other.priority - one.priority
    const [mine, its] = [keys.get(one)!, keys.get(other)!]
    if (mine.turn !== its.turn) return mine.turn - its.turn
    if (mine.turn === 0 && mine.standing !== its.standing) return mine.standing - its.standing
    if (mine.turn !== 0 && mine.depth !== its.depth) return its.depth - mine.depth
    return (
      one.waitingSince - other.waitingSince || one.queues[0]!.view.classId - other.queues[0]!.view.classId
    )
  })
}

const OLD = 0.5

function turnOf(demand: Demand, state: PlacementState): number {
  const { model, waitingSince, rules } = demand
  const copies = model === null ? [] : state.copiesOf(model).filter((copy) => copy.usable && !copy.stopped)
  const isSpent = (copy: Copy) => (holdEnd(demand, copy) ?? Number.POSITIVE_INFINITY) <= state.now
  const allSpent = copies.length > 0 && copies.every(isSpent)
  if (!allSpent && state.now - waitingSince >= OLD * rules.maxWaitMs) return 0
  if (copies.length === 0) return 2
  // The further copy of a model goes to one that has none, before it is given more to do.
  return copies.length > 1 && copies.some(isSpent) ? 3 : 1
}
