import { inOrder } from './choose-order.ts'
import { MAX_REST_MS, type Plan, type Start, type Unload, type Verdict } from './decision.ts'
import { type Demand, demandsOf, leftOf, rulesOf, timesOf } from './demand.ts'
import { explain, explainBusy } from './explain.ts'
import { chooseDevices, clear, copiesToUnload, drainMs, EASE, type Placement, type Terms } from './pack.ts'
import { type Copy, PlacementState } from './placement-state.ts'
import type { PlanInput } from './plan-input.ts'
import { paysAnother, servingCopies } from './replicate.ts'
import { startOnCopy, startOnDevices } from './start-jobs.ts'

export type { DeviceUse, Plan, Start, Unload, Verdict } from './decision.ts'

/**
 * Decides what a worker starts, loads and unloads now.
 *
 * Pure: the same input gives the same plan. What it starts fits into the rooms of the input, all together. A model
 * is only loaded for jobs that start with it, so each load serves at least one.
 */
export function plan(input: PlanInput): Plan {
  return new Planning(input).run()
}

class Planning {
  readonly #input: PlanInput
  readonly #state: PlacementState
  readonly #demands: readonly Demand[]
  readonly #ofModel: ReadonlyMap<string, Demand>
  readonly #starts: Start[] = []
  readonly #unloads: Unload[] = []
  readonly #verdicts = new Map<Demand, Verdict>()
  readonly #strict: Terms
  readonly #gentle: Terms
  #lookAgainMs = MAX_REST_MS

  constructor(input: PlanInput) {
    this.#input = input
    this.#state = new PlacementState(input)
    this.#demands = inOrder(demandsOf(input), this.#state)
    this.#strict = {
      state: this.#state,
      gentle: false,
      ownerOf: (model) => this.#ownerOf(model),
      timesOf: (model) => timesOf(model, input),
      quantumOf: ({ shares }) => rulesOf(shares, input).quantum,
    }
    this.#gentle = { ...this.#strict, gentle: true }
    this.#ofModel = new Map(
      this.#demands.flatMap((demand) => (demand.model === null ? [] : [[demand.model, demand]])),
    )
  }

  run(): Plan {
    this.#relieve()
    // A level at a time: a second copy for high priority comes before the first one for a lower.
    for (let start = 0; start < this.#demands.length; ) {
      const { priority } = this.#demands[start]!
      let end = start
      while (this.#demands[end]?.priority === priority) end += 1
      const level = this.#demands.slice(start, end)
      const served = level.filter((demand) => this.#serve(demand))
      for (const demand of served) this.#addCopy(demand)
      start = end
    }
    return {
      starts: this.#starts,
      unloads: this.#unloads,
      lookAgainMs: Math.max(1, Math.ceil(this.#lookAgainMs)),
      verdicts: this.#allVerdicts(),
    }
  }

  /** A device that was made smaller is brought below what it has: copies on it get no more jobs, and go when they are idle. */
  #relieve(): void {
    for (const deviceBudget of this.#state.overdrawn) {
      for (const copy of copiesToUnload(deviceBudget, this.#strict)) this.#leave(copy, null)
      // What comes free only makes up for what is missing.
      deviceBudget.pending = Math.max(0, deviceBudget.pending - deviceBudget.over)
    }
  }

  /** Starts what can start. Whether the demand has copies and could do with more. */
  #serve(demand: Demand): boolean {
    if (this.#state.free < 1 || leftOf(demand) === 0) return false
    if (demand.model === null) {
      this.#serveWithoutModel(demand)
      return false
    }
    for (const copy of this.#state.copiesOf(demand.model)) {
      if (!copy.usable || copy.stopped) continue
      this.#starts.push(...startOnCopy(this.#state, demand, copy))
      if (copy.running === 0 && leftOf(demand) > 0) this.#widen(demand, copy)
    }
    if (leftOf(demand) === 0) return false
    if (servingCopies(demand, this.#state).length > 0) return true
    this.#open(demand, false)
    return false
  }

  #serveWithoutModel(demand: Demand): void {
    while (leftOf(demand) > 0 && this.#state.free >= 1) {
      const placements = chooseDevices(demand, this.#terms(false))
      if (placements === undefined) return
      if (placements.some(({ ease }) => ease !== EASE.fits)) {
        this.#await(demand, placements, false)
        return
      }
      const start = startOnDevices(this.#state, demand, placements)
      if (start === undefined) return
      this.#starts.push(start)
    }
  }

  /** A model that is served gets a copy more where that is sooner than waiting. */
  #addCopy(demand: Demand): void {
    for (let more = true; more && leftOf(demand) > 0 && this.#state.free >= 1; ) {
      more = paysAnother(demand, this.#state, 0) && this.#open(demand, true)
    }
  }

  /** Loads a copy if there is a place, or makes one. Whether it was loaded. */
  #open(demand: Demand, gentle: boolean): boolean {
    if (!this.#hasShared(demand)) return false
    // Where nothing says how much there may be of it, one copy is enough for a worker.
    if (demand.needs.length === 0 && this.#state.copiesOf(demand.model!).some(({ mine }) => mine))
      return false
    const placements = chooseDevices(demand, this.#terms(gentle))
    if (placements === undefined) return false
    if (placements.some(({ ease }) => ease !== EASE.fits)) {
      this.#await(demand, placements, gentle)
      return false
    }
    const shares = placements.map(({ deviceBudget, need }) => ({
      budget: deviceBudget.budget,
      device: deviceBudget.device,
      amount: need.resident,
    }))
    const copy = this.#state.addCopy(demand.model!, shares)
    const starts = startOnCopy(this.#state, demand, copy)
    // Classes of one model may differ in what their jobs need, and the one that asked for the copy may lack a shared budget.
    if (starts.length === 0) this.#state.removeCopy(copy)
    this.#starts.push(...starts)
    return starts.length > 0
  }

  #hasShared(demand: Demand): boolean {
    return demand.queues.some(
      (queue) =>
        queue.left > 0 && queue.shared.every(({ budget, each }) => this.#state.shared.get(budget)! >= each),
    )
  }

  /** A copy that is there has no room for a job beside it: others on its devices go. */
  #widen(demand: Demand, copy: Copy): void {
    if (!this.#hasShared(demand)) return
    const terms = this.#terms(false)
    const placements: Placement[] = []
    for (const share of copy.shares) {
      const deviceBudget = this.#state.deviceBudgetOf(share)!
      const need = demand.needs.find(({ budget }) => budget === share.budget)
      const missing = (need?.perJob ?? 0) - deviceBudget.room
      if (need === undefined || missing <= 0) continue
      placements.push(clear(demand, deviceBudget, { ...need, resident: 0 }, missing, terms))
    }
    if (placements.length > 0) this.#await(demand, placements, false)
  }

  /** There is no room yet: has idle copies in the way unloaded, stops those that may be stopped, and keeps the room. */
  #await(demand: Demand, placements: readonly Placement[], gentle: boolean): void {
    const hardest = Math.max(...placements.map(({ ease }) => ease))
    for (const { until } of placements) this.#lookAgainAt(until)
    this.#lookAgainAt(demand.dueAt)
    // A further copy is a convenience: it waits for nobody, and pays for what it drives out.
    if (gentle) {
      const reloadMs = placements.reduce((sum, { cost }) => sum + cost, 0)
      if (hardest > EASE.unload || !paysAnother(demand, this.#state, reloadMs)) return
    }
    this.#verdicts.set(demand, explain(demand, placements, this.#strict))
    if (hardest === EASE.blocked) return
    const from = this.#freeFrom(placements)
    // Nobody is stopped before all can be, and nobody whose jobs will have ended by then.
    if (hardest <= EASE.drain)
      for (const { victims } of placements)
        for (const copy of victims)
          if (from === null || this.#state.now + timesOf(copy.model, this.#input).runMs >= from)
            this.#stop(demand, copy)
    const firm = demand.due || hardest === EASE.unload
    for (const { deviceBudget, need } of placements) {
      const amount = need.resident + need.perJob
      const promised = Math.min(amount, deviceBudget.pending)
      deviceBudget.pending -= promised
      deviceBudget.kept.push({ amount: amount - promised, demand, firm, from })
    }
  }

  /** When the last of the copies in the way has ended its turn or its jobs, as far as one can say; `null` when none has any. */
  #freeFrom(placements: readonly Placement[]): number | null {
    let from: number | null = null
    for (const { victims, until } of placements) {
      if (until !== null) from = Math.max(from ?? 0, until)
      for (const copy of victims)
        if (copy.running > 0) from = Math.max(from ?? 0, this.#state.now + drainMs(copy, this.#strict))
    }
    return from
  }

  #stop(demand: Demand, copy: Copy): void {
    if (copy.stopped) return
    if (copy.running > 0 && this.#ownerOf(copy.model) === undefined && !demand.due) return
    this.#leave(copy, demand.model)
  }

  #leave(copy: Copy, inFavourOf: string | null): void {
    copy.stopped = true
    for (const share of copy.shares) {
      const deviceBudget = this.#state.deviceBudgetOf(share)
      if (deviceBudget !== undefined) deviceBudget.pending += share.amount
    }
    if (copy.running > 0) return
    const { model, shares } = copy
    this.#unloads.push({ resident: copy.view!.id, model, shares, inFavourOf })
  }

  #terms(gentle: boolean): Terms {
    return gentle ? this.#gentle : this.#strict
  }

  #ownerOf(model: string): Demand | undefined {
    const owner = this.#ofModel.get(model)
    return owner?.queues.some(({ left }) => left > 0) === true ? owner : undefined
  }

  #lookAgainAt(at: number | null): void {
    if (at !== null && at > this.#state.now)
      this.#lookAgainMs = Math.min(this.#lookAgainMs, at - this.#state.now)
  }

  #allVerdicts(): Plan['verdicts'] {
    return this.#demands.flatMap((demand) =>
      demand.queues
        .filter((queue) => queue.left > 0 || queue.view.most < queue.view.depth)
        .map((queue) => {
          const { classId } = queue.view
          if (queue.left === 0) return { classId, why: { kind: 'lane-full' as const } }
          const full = queue.shared.find(({ budget, each }) => this.#state.shared.get(budget)! < each)
          if (full !== undefined) {
            const room = this.#state.shared.get(full.budget)!
            return {
              classId,
              why: { kind: 'shared-full' as const, budget: full.budget, need: full.each, room },
            }
          }
          return { classId, why: this.#verdictOf(demand) }
        }),
    )
  }

  #verdictOf(demand: Demand): Verdict {
    const found = this.#verdicts.get(demand)
    if (found !== undefined) return found
    if (this.#state.free < 1) return { kind: 'no-capacity' }
    const busy = explainBusy(demand, this.#state)
    if (busy !== undefined) return busy
    const placements = chooseDevices(demand, this.#terms(false))
    return explain(demand, placements, this.#strict)
  }
}
