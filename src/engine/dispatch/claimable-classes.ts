import type { Queryable } from '../../db/database.ts'
import { MAX_COUNT } from '../../model/limits.ts'
import { type DispatchClass, loadClasses } from '../../store/load-classes.ts'

/** More than any claim takes. */

/** A class to claim from, and the most jobs to claim. */
export interface Claimable {
  readonly id: number
  readonly lane: string
  readonly max: number
  readonly slots: number | null
  readonly budgeted: boolean
  /** How many jobs a worker may prefetch. */
  readonly prefetch: number
  readonly task: string
}

/** What bounds the next claim, apart from the worker's capacity. */
export interface ClaimBounds {
  readonly freeProcesses: number
  /** The most jobs of a task; a task without an entry has no bound of its own. */
  readonly limits: ReadonlyMap<string, number> | undefined
  readonly mayServe: (lane: string) => boolean
  /** Rotates which class gets the remainder of the pool's processes. */
  readonly turn: number
}

export interface Served {
  readonly tasks: readonly string[]
  readonly labels: Readonly<Record<string, unknown>>
  /** Tasks that need a pool process. */
  readonly processTasks: ReadonlySet<string>
}

/** The classes that a worker can serve, and the settings of their lanes. */
export class Offer {
  readonly #served: Served
  #classes: readonly DispatchClass[] = []
  #byId: ReadonlyMap<number, DispatchClass> = new Map()
  /** How long the poll of each lane is, by lane. */
  polls: ReadonlyMap<string, number> = new Map()
  /** `stale` by lane. */
  staleByLane: ReadonlyMap<string, number> = new Map()
  /** Lanes with a limit. */
  limitedLanes: readonly string[] = []
  /** Models of the classes that draw from budgets; null where a class has none. */
  models: ReadonlySet<string | null> = new Set()
  /** Some class draws from budgets. */
  isBudgeted = false
  /** Some lane is spread. */
  isSpread = false
  /** When it was last read, by `performance.now()`. Undefined before that. */
  readAt: number | undefined

  constructor(served: Served) {
    this.#served = served
  }

  async read(db: Queryable): Promise<void> {
    const { tasks, labels } = this.#served
    const readAt = performance.now()
    const classes = await loadClasses(db, tasks, labels)
    const budgeted = classes.filter((each) => each.budgeted)
    this.#classes = classes
    this.#byId = new Map(classes.map((each) => [each.id, each]))
    this.polls = new Map(classes.map((each) => [each.lane, each.pollMs]))
    this.staleByLane = new Map(classes.map((each) => [each.lane, each.staleMs]))
    this.limitedLanes = classes.filter((each) => each.slots !== null).map((each) => each.lane)
    this.models = new Set(budgeted.map(({ model }) => model))
    this.isBudgeted = budgeted.length > 0
    this.isSpread = classes.some((each) => each.spread)
    this.readAt = readAt
  }

  /** The class of a job that this worker was given. */
  classOf(id: number): DispatchClass {
    return this.#byId.get(id)!
  }

  /** The lane of a class, unless the worker no longer serves it. */
  laneOf(id: number): string | undefined {
    return this.#byId.get(id)?.lane
  }

  /** Lanes that it serves and that are not in the list. */
  lanesBeyond(lanes: readonly string[]): string[] {
    const known = new Set(lanes)
    return [...this.polls.keys()].filter((lane) => !known.has(lane))
  }

  /** The classes to claim from in these lanes. Processes of the pool are divided so that none is promised twice. */
  claimable(lanes: readonly string[], bounds: ClaimBounds): Claimable[] {
    const { freeProcesses, limits, mayServe, turn } = bounds
    const known = new Set(lanes)
    const open = this.#classes.filter(({ lane }) => known.has(lane) && mayServe(lane))
    const pooled = open.filter((each) => this.#served.processTasks.has(each.task))
    const claimable: Claimable[] = []
    for (const each of open) {
      const part = pooled.indexOf(each)
      const share = part < 0 ? MAX_COUNT : shareOf(freeProcesses, pooled.length, part, turn)
      const max = Math.min(share, limits?.get(each.task) ?? share)
      // The order within a planned class is exact, because it is scanned from the top, like a lane with one slot.
      const { id, task, lane, budgeted } = each
      const slots = budgeted ? 1 : each.slots
      const prefetch = part >= 0 || slots === 1 || each.spread ? 0 : each.prefetch
      if (max > 0) claimable.push({ id, task, lane, max, slots, budgeted, prefetch })
    }
    return claimable
  }
}

/** Splits `total` into `parts` whole numbers with that sum. Which parts get the remainder rotates with `turn`. */
function shareOf(total: number, parts: number, part: number, turn: number): number {
  const extra = (part + turn) % parts < total % parts ? 1 : 0
  return Math.floor(total / parts) + extra
}
