import type { Demand } from './demand.ts'
import type { DeviceView, Picture, ResidentView, Share } from './picture.ts'

/** A copy of a model while a plan is made: jobs come to it, or it is told to go. */
export interface Copy {
  /** `undefined` for one that this plan loads. */
  readonly view: ResidentView | undefined
  readonly model: string
  readonly shares: readonly Share[]
  /** Its jobs can run here: this worker has it, on devices that it offers. */
  readonly usable: boolean
  readonly mine: boolean
  running: number
  /** Gets no more jobs: it is unloading, or its place is meant for another. */
  stopped: boolean
}

/** What one device has of one budget. */
export interface Spot {
  readonly budget: string
  readonly device: string
  readonly capacity: number
  room: number
  /** Comes free by itself: its copies unload. */
  pending: number
  /** Has to come free before anything may be taken: it was made smaller. */
  readonly over: number
  readonly copies: Copy[]
  readonly kept: Kept[]
}

/** Room that is kept for a demand which cannot have it yet. */
export interface Kept {
  readonly amount: number
  readonly demand: Demand
  /** Against everyone who comes later; otherwise only against lower priority. */
  readonly firm: boolean
  /** It cannot be taken before then. Until then it is lent to those who will be done with it. `null`: it may be at any time. */
  readonly from: number | null
}

/** The devices, budgets and copies of a picture, and what the plan has taken of them so far. */
export class Floor {
  readonly now: number
  free: number
  readonly shared: Map<string, number>
  readonly copies: Copy[]
  readonly #spots = new Map<string, Map<string, Spot>>()
  readonly #lists = new Map<string, Spot[]>()
  readonly #copiesOf = new Map<string, Copy[]>()

  constructor(picture: Picture) {
    this.now = picture.now
    this.free = picture.free
    this.shared = new Map([...picture.shared].map(([budget, room]) => [budget, unlimited(room)]))
    for (const device of picture.devices) {
      const spot = spotOf(device)
      const ofBudget = this.#spots.get(spot.budget)
      if (ofBudget === undefined) this.#spots.set(spot.budget, new Map([[spot.device, spot]]))
      else ofBudget.set(spot.device, spot)
    }
    for (const [budget, spots] of this.#spots) this.#lists.set(budget, [...spots.values()])
    this.copies = []
    for (const view of picture.residents) this.#add(copyOf(view, (share) => this.spotOf(share) !== undefined))
  }

  /** Devices that hold more than they have. */
  get overdrawn(): readonly Spot[] {
    return [...this.#lists.values()].flat().filter(({ over }) => over > 0)
  }

  spots(budget: string): readonly Spot[] {
    return this.#lists.get(budget) ?? []
  }

  spotOf({ budget, device }: Pick<Share, 'budget' | 'device'>): Spot | undefined {
    return this.#spots.get(budget)?.get(device)
  }

  copiesOf(model: string): readonly Copy[] {
    return this.#copiesOf.get(model) ?? []
  }

  /** Takes the memory of a new copy from its devices. */
  addCopy(model: string, shares: readonly Share[]): Copy {
    const copy = {
      view: undefined,
      model,
      shares,
      usable: true,
      mine: true,
      running: 0,
      stopped: false,
    }
    for (const share of shares) this.spotOf(share)!.room -= share.amount
    this.#add(copy)
    return copy
  }

  /** Undoes `addCopy`, right after it. */
  removeCopy(copy: Copy): void {
    remove(this.copies, copy)
    remove(this.#copiesOf.get(copy.model)!, copy)
    for (const share of copy.shares) {
      const spot = this.spotOf(share)!
      spot.room += share.amount
      remove(spot.copies, copy)
    }
  }

  #add(copy: Copy): void {
    this.copies.push(copy)
    const siblings = this.#copiesOf.get(copy.model)
    if (siblings === undefined) this.#copiesOf.set(copy.model, [copy])
    else siblings.push(copy)
    for (const share of copy.shares) {
      const spot = this.spotOf(share)
      if (spot === undefined) continue
      spot.copies.push(copy)
      if (copy.view?.unloading === true) spot.pending += share.amount
    }
  }
}

function remove<T>(list: T[], item: T): void {
  list.splice(list.indexOf(item), 1)
}

function spotOf({ budget, key, capacity, room, over = 0 }: DeviceView): Spot {
  return {
    budget,
    device: key,
    capacity: unlimited(capacity),
    room: unlimited(room),
    pending: 0,
    over,
    copies: [],
    kept: [],
  }
}

function unlimited(amount: number | null): number {
  return amount === null ? Number.POSITIVE_INFINITY : Math.max(0, amount)
}

function copyOf(view: ResidentView, isOffered: (share: Share) => boolean): Copy {
  return {
    view,
    model: view.model,
    shares: view.shares,
    usable: view.mine && view.shares.every(isOffered),
    mine: view.mine,
    running: view.running,
    stopped: view.unloading,
  }
}

/** What a demand may take of a spot now: room, less what is kept for those before it. */
export function roomFor(demand: Demand, spot: Spot): number {
  let room = spot.room
  for (const kept of spot.kept) if (binds(kept, demand) && !isLent(kept, demand.turnEnd)) room -= kept.amount
  return Math.max(0, room)
}

function isLent({ from }: Kept, until: number): boolean {
  return from !== null && until <= from
}

/**
 * The same for one more job on a copy that is there. What is kept for others of its priority does not bind it: they wait for the
 * copy to end its turn, and it would sit there idle until then.
 */
export function roomBeside(demand: Demand, spot: Spot): number {
  let room = spot.room
  for (const kept of spot.kept)
    if (kept.demand.priority > demand.priority && !isLent(kept, demand.jobEnd)) room -= kept.amount
  return Math.max(0, room)
}

export function binds(kept: Kept, demand: Demand): boolean {
  return kept.demand !== demand && (kept.firm || kept.demand.priority > demand.priority)
}
