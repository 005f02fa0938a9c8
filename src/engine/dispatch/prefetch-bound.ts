import type { Prefetch } from '../../model/assignment.ts'
import type { Claimable } from './offer.ts'

type Prefetchable = Pick<Claimable, 'id' | 'task' | 'lane' | 'prefetch'>
type Ahead = Pick<Prefetch, 'ahead' | 'holds' | 'room'>

/** A class of which nothing is assigned, so that only free slots get its jobs started. */
const NEEDS_SLOTS = -1

/** How many jobs of a class to ask for beyond the free slots, if its lane has room for `most`. */
export function ahead(
  prefetch: Pick<Prefetch, 'ahead'> | undefined,
  { task, lane }: Prefetchable,
  most: number,
): number {
  return prefetch === undefined || most <= 0 ? 0 : prefetch.ahead(task, lane, most)
}

/**
 * How many jobs of each class to ask for beyond the free slots. `prefetch` of a lane bounds all its classes together, so what one class asks for is not left
 * for the others. If all
 * classes together ask for more than the worker has room for, each asks for less by the same share.
 *
 * The class that the worker is busy with comes first: a class that has no jobs must not take the bound from it. If none is, another class comes first in every
 * cycle.
 */
export function divideAhead(
  classes: readonly Prefetchable[],
  prefetch: Ahead | undefined,
  busyClass: number | undefined,
  turn: number,
): number[] {
  const asked = new Map<string, number>()
  const divided = new Array<number>(classes.length).fill(0)
  const busy = classes.findIndex(({ id }) => id === busyClass)
  const first = busy >= 0 ? busy : turn
  for (let i = 0; i < classes.length; i++) {
    const at = (first + i) % classes.length
    const each = classes[at]!
    const before = asked.get(each.lane) ?? 0
    const jobs = ahead(prefetch, each, each.prefetch - before)
    asked.set(each.lane, before + jobs)
    divided[at] = jobs
  }
  return divideRoom(divided, prefetch?.room() ?? 0).map((jobs, i) => {
    const { task, lane } = classes[i]!
    return jobs > 0 || prefetch?.holds(task, lane) === true ? jobs : NEEDS_SLOTS
  })
}

/** Makes the numbers smaller by the same share until their sum is `room` at most. */
export function divideRoom(asked: readonly number[], room: number): number[] {
  const sum = asked.reduce((total, jobs) => total + jobs, 0)
  return asked.map((jobs) => (sum > room ? Math.floor((jobs * room) / sum) : jobs))
}
