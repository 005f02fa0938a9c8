import type { Prefetch } from '../../model/assignment.ts'
import type { Claimable } from './claimable-classes.ts'

type Prefetchable = Pick<Claimable, 'id' | 'task' | 'lane' | 'prefetch'>
type Ahead = Pick<Prefetch, 'ahead' | 'holds' | 'room'>

/** A class without assigned jobs, whose jobs only a free slot can start. */
const NEEDS_SLOTS = -1
/** As many of its jobs are at most urgent at once. */
const LEFT_TO_EACH = 8

/** How many jobs of a class to ask for beyond the free slots, if its lane has room for `most`. */
export function ahead(
  prefetch: Pick<Prefetch, 'ahead'> | undefined,
  { task, lane }: Prefetchable,
  most: number,
): number {
  return prefetch === undefined || most <= 0 ? 0 : prefetch.ahead(task, lane, most)
}

/**
 * Returns how many jobs of each class to ask for beyond the free slots. `prefetch` of a lane bounds all its classes together. If all
 * classes together ask for more than the worker has room for, each asks for less by the same share.
 *
 * The class that the worker is busy with comes first, because a class without jobs must not use up the bound. If no class is busy, another one
 * comes first in every cycle. Each leaves up to a tenth of the bound to those after it: an urgent job of theirs would otherwise need a free slot.
 */
export function divideAhead(
  classes: readonly Prefetchable[],
  prefetch: Ahead | undefined,
  busyClass: number | undefined,
  turn: number,
): number[] {
  const busy = classes.findIndex(({ id }) => id === busyClass)
  const first = busy >= 0 ? busy : turn
  const order = classes.map((_, i) => (first + i) % classes.length)
  const left = leftToLater(
    order.map((at) => classes[at]!),
    prefetch,
  )
  const asked = new Map<string, number>()
  const divided = new Array<number>(classes.length).fill(0)
  order.forEach((at, i) => {
    const each = classes[at]!
    const before = asked.get(each.lane) ?? 0
    const jobs = ahead(prefetch, each, each.prefetch - before - left[i]!)
    asked.set(each.lane, before + jobs)
    divided[at] = jobs
  })
  return divideRoom(divided, prefetch?.room() ?? 0).map((jobs, i) => {
    const { task, lane } = classes[i]!
    return jobs > 0 || prefetch?.holds(task, lane) === true ? jobs : NEEDS_SLOTS
  })
}

/** Returns how much of the bound of its lane each class leaves to those after it: what they ask for, up to a tenth. */
function leftToLater(classes: readonly Prefetchable[], prefetch: Ahead | undefined): number[] {
  const byLane = new Map<string, number>()
  const left = new Array<number>(classes.length).fill(0)
  for (let i = classes.length - 1; i >= 0; i--) {
    const each = classes[i]!
    const later = byLane.get(each.lane) ?? 0
    left[i] = Math.min(later, Math.ceil(each.prefetch / 10))
    byLane.set(each.lane, later + Math.min(LEFT_TO_EACH, ahead(prefetch, each, each.prefetch)))
  }
  return left
}

/** Makes the numbers smaller by the same share until their sum is `room` at most. */
export function divideRoom(asked: readonly number[], room: number): number[] {
  const sum = asked.reduce((total, jobs) => total + jobs, 0)
  return asked.map((jobs) => (sum > room ? Math.floor((jobs * room) / sum) : jobs))
}
