import type { Demand } from './demand.ts'
import type { DeviceView, PlanInput, ResidentView, Share } from './plan-input.ts'

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
export interface DeviceBudget {
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

/** The devices, budgets and copies of the input, and what the plan has taken of them so far. */
export class PlacementState {
  readonly now: number
  free: number
  readonly shared: Map<string, number>
  readonly copies: Copy[]
  readonly #deviceBudgets = new Map<string, Map<string, DeviceBudget>>()
  readonly #lists = new Map<string, DeviceBudget[]>()
  readonly #copiesOf = new Map<string, Copy[]>()

  constructor(input: PlanInput) {
    this.now = input.now
    this.free = input.free
    this.shared = new Map([...input.shared].map(([budget, room]) => [budget, unlimited(room)]))
    for (const device of input.devices) {
      const deviceBudget = deviceBudgetOf(device)
      const ofBudget = this.#deviceBudgets.get(deviceBudget.budget)
      if (ofBudget === undefined)
        this.#deviceBudgets.set(deviceBudget.budget, new Map([[deviceBudget.device, deviceBudget]]))
      else ofBudget.set(deviceBudget.device, deviceBudget)
    }
    for (const [budget, deviceBudgets] of this.#deviceBudgets)
      this.#lists.set(budget, [...deviceBudgets.values()])
    this.copies = []
    for (const view of input.residents)
      this.#add(copyOf(view, (share) => this.deviceBudgetOf(share) !== undefined))
  }

  /** Devices that hold more than they have. */
  get overdrawn(): readonly DeviceBudget[] {
    return [...this.#lists.values()].flat().filter(({ over }) => over > 0)
  }

  deviceBudgets(budget: string): readonly DeviceBudget[] {
    return this.#lists.get(budget) ?? []
  }

  deviceBudgetOf({ budget, device }: Pick<Share, 'budget' | 'device'>): DeviceBudget | undefined {
    return this.#deviceBudgets.get(budget)?.get(device)
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
    for (const share of shares) this.deviceBudgetOf(share)!.room -= share.amount
    this.#add(copy)
    return copy
  }

  /** Undoes `addCopy`, right after it. */
  removeCopy(copy: Copy): void {
    remove(this.copies, copy)
    remove(this.#copiesOf.get(copy.model)!, copy)
    for (const share of copy.shares) {
      const deviceBudget = this.deviceBudgetOf(share)!
      deviceBudget.room += share.amount
      remove(deviceBudget.copies, copy)
    }
  }

  #add(copy: Copy): void {
    this.copies.push(copy)
    const siblings = this.#copiesOf.get(copy.model)
    if (siblings === undefined) this.#copiesOf.set(copy.model, [copy])
    else siblings.push(copy)
    for (const share of copy.shares) {
      const deviceBudget = this.deviceBudgetOf(share)
      if (deviceBudget === undefined) continue
      deviceBudget.copies.push(copy)
      if (copy.view?.unloading === true) deviceBudget.pending += share.amount
    }
  }
}

function remove<T>(list: T[], item: T): void {
  list.splice(list.indexOf(item), 1)
}

function deviceBudgetOf({ budget, key, capacity, room, over = 0 }: DeviceView): DeviceBudget {
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

/** What a demand may take of a budget on a device now: room, less what is kept for those before it. */
export function roomFor(demand: Demand, deviceBudget: DeviceBudget): number {
  let room = deviceBudget.room
  for (const kept of deviceBudget.kept)
    if (binds(kept, demand) && !isLent(kept, demand.turnEnd)) room -= kept.amount
  return Math.max(0, room)
}

function isLent({ from }: Kept, until: number): boolean {
  return from !== null && until <= from
}

/**
 * The same for one more job on a copy that is there. What is kept for others of its priority does not bind it: they wait for the
 * copy to end its turn, and it would sit there idle until then.
 */
export function roomBeside(demand: Demand, deviceBudget: DeviceBudget): number {
  let room = deviceBudget.room
  for (const kept of deviceBudget.kept)
    if (kept.demand.priority > demand.priority && !isLent(kept, demand.jobEnd)) room -= kept.amount
  return Math.max(0, room)
}

export function binds(kept: Kept, demand: Demand): boolean {
  return kept.demand !== demand && (kept.firm || kept.demand.priority > demand.priority)
}
