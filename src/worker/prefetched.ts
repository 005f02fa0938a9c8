import type { AssignedCells } from '../model/assigned-cells.ts'
import type { Assignment, JobAttempt } from '../model/assignment.ts'
import { taskInLane } from '../model/task-in-lane.ts'

/** What has not started within this time goes back to the queue. */
export const HAND_BACK_MS = 100

export interface Waiting {
  readonly assignment: Assignment
  readonly cell: number
  readonly since: number
}

/** The jobs that are assigned to a worker and wait for one of its slots. */
export class Prefetched {
  readonly #cells: AssignedCells
  /** By id, the eldest first. */
  readonly #waiting = new Map<string, Waiting>()
  /** By lane, in the order in which they start. */
  readonly #lanes = new Map<string, Waiting[]>()
  /** How many there are of each task in each lane. */
  readonly #counts = new Map<string, number>()

  readonly #onLeft: (id: string, isOurs: boolean) => void

  /** @param onLeft A job is not here any more. `isOurs` is false if the heartbeat thread has taken it back. */
  constructor(cells: AssignedCells, onLeft: (id: string, isOurs: boolean) => void = () => {}) {
    this.#cells = cells
    this.#onLeft = onLeft
  }

  get size(): number {
    return this.#waiting.size
  }

  get lanes(): Iterable<string> {
    return this.#lanes.keys()
  }

  /** How many more may be assigned in all. */
  get room(): number {
    return this.#cells.room
  }

  has(id: string): boolean {
    return this.#waiting.has(id)
  }

  /** How many there are of a lane. */
  countIn(lane: string): number {
    return this.#lanes.get(lane)?.length ?? 0
  }

  /** How many there are of a task in a lane, by `taskInLane`. */
  count(key: string): number {
    return this.#counts.get(key) ?? 0
  }

  named(): JobAttempt[] {
    return [...this.#waiting.values()].map(({ assignment: { id, attempt } }) => ({ id, attempt }))
  }

  /** Since when the eldest has been waiting; infinite: there is none. */
  get eldest(): number {
    for (const { since } of this.#waiting.values()) return since
    return Number.POSITIVE_INFINITY
  }

  /** @param now By the clock that `eldest` is compared with. */
  add(assignment: Assignment, now: number): void {
    const { id, lane } = assignment
    const waiting = { assignment, cell: this.#cells.put(id), since: now }
    this.#waiting.set(id, waiting)
    const inLane = this.#lanes.get(lane)
    if (inLane === undefined) this.#lanes.set(lane, [waiting])
    else insert(inLane, waiting)
    this.#count(assignment, 1)
  }

  /** The next job of a lane. */
  first(lane: string): Assignment | undefined {
    return this.#lanes.get(lane)?.[0]?.assignment
  }

  /** The next job of a lane, which the caller starts. `'recalled'`: the heartbeat thread has taken it back. */
  next(lane: string): Waiting | 'recalled' | undefined {
    const first = this.#lanes.get(lane)?.[0]
    if (first === undefined) return undefined
    return this.#remove(first) ? first : 'recalled'
  }

  /** Takes out a job that is not to be started. `undefined`: it is not here any more. */
  withdraw(id: string): Assignment | undefined {
    const each = this.#waiting.get(id)
    return each !== undefined && this.#remove(each) ? each.assignment : undefined
  }

  /** Takes out all that have waited since then or longer. Those that the heartbeat thread has taken back are not among them. */
  withdrawAll(since = Number.POSITIVE_INFINITY): Assignment[] {
    return [...this.#waiting.values()]
      .filter((each) => each.since <= since && this.#remove(each))
      .map(({ assignment }) => assignment)
  }

  /** False: the heartbeat thread has taken it back. */
  #remove(waiting: Waiting): boolean {
    const { id, lane } = waiting.assignment
    const inLane = this.#lanes.get(lane)!
    if (inLane[0] === waiting) inLane.shift()
    else inLane.splice(inLane.indexOf(waiting), 1)
    if (inLane.length === 0) this.#lanes.delete(lane)
    this.#waiting.delete(id)
    this.#count(waiting.assignment, -1)
    const isOurs = this.#cells.take(waiting.cell)
    this.#onLeft(id, isOurs)
    return isOurs
  }

  #count(assignment: Assignment, by: number): void {
    const key = taskInLane(assignment.task, assignment.lane)
    this.#counts.set(key, this.count(key) + by)
  }
}

/** Nearly always it comes last: what is urgent was submitted since. */
function insert(inLane: Waiting[], waiting: Waiting): void {
  const rank = rankOf(waiting)
  let at = inLane.length
  while (at > 0 && rankOf(inLane[at - 1]!) > rank) at--
  inLane.splice(at, 0, waiting)
}

function rankOf({ assignment }: Waiting): number {
  return assignment.prefetched?.rank ?? 0
}
