import { inOrder } from './choose-order.ts'
import { MAX_REST_MS, type Plan, type Start, type Unload, type Verdict } from './decision.ts'
import { type Demand, demandsOf, leftOf, rulesOf, timesOf } from './demand.ts'
import { explain, explainBusy } from './explain.ts'
import { type Copy, Floor } from './floor.ts'
import { chooseDevices, clear, drainMs, EASE, leavers, type Terms, type Way } from './pack.ts'
import type { Picture } from './picture.ts'
import { paysAnother, servingCopies } from './replicate.ts'
import { startOnCopy, startOnDevices } from './start-jobs.ts'

export type { Place, Plan, Start, Unload, Verdict } from './decision.ts'

/**
 * Decides what a worker starts, loads and unloads now.
 *
 * Pure: the same picture gives the same plan. What it starts fits into the rooms of the picture, all together. A model
 * is only loaded for jobs that start with it, so each load serves at least one.
 */
export function plan(picture: Picture): Plan {
  return new Planning(picture).run()
}

class Planning {
  readonly #picture: Picture
  readonly #floor: Floor
  readonly #demands: readonly Demand[]
  readonly #ofModel: ReadonlyMap<string, Demand>
  readonly #starts: Start[] = []
  readonly #unloads: Unload[] = []
  readonly #verdicts = new Map<Demand, Verdict>()
  readonly #firmly: Terms
  readonly #gently: Terms
  #lookAgainMs = MAX_REST_MS

  constructor(picture: Picture) {
    this.#picture = picture
    this.#floor = new Floor(picture)
    this.#demands = inOrder(demandsOf(picture), this.#floor)
    this.#firmly = {
      floor: this.#floor,
      gentle: false,
      ownerOf: (model) => this.#ownerOf(model),
      timesOf: (model) => timesOf(model, picture),
      quantumOf: ({ shares }) => rulesOf(shares, picture).quantum,
    }
    this.#gently = { ...this.#firmly, gentle: true }
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
    for (const spot of this.#floor.overdrawn) {
      for (const copy of leavers(spot, this.#firmly)) this.#leave(copy, null)
      // What comes free only makes up for what is missing.
      spot.pending = Math.max(0, spot.pending - spot.over)
    }
  }

  /** Starts what can start. Whether the demand has copies and could do with more. */
  #serve(demand: Demand): boolean {
    if (this.#floor.free < 1 || leftOf(demand) === 0) return false
    if (demand.model === null) {
      this.#serveWithoutModel(demand)
      return false
    }
    for (const copy of this.#floor.copiesOf(demand.model)) {
      if (!copy.usable || copy.stopped) continue
      this.#starts.push(...startOnCopy(this.#floor, demand, copy))
      if (copy.running === 0 && leftOf(demand) > 0) this.#widen(demand, copy)
    }
    if (leftOf(demand) === 0) return false
    if (servingCopies(demand, this.#floor).length > 0) return true
    this.#open(demand, false)
    return false
  }

  #serveWithoutModel(demand: Demand): void {
    while (leftOf(demand) > 0 && this.#floor.free >= 1) {
      const ways = chooseDevices(demand, this.#terms(false))
      if (ways === undefined) return
      if (ways.some(({ ease }) => ease !== EASE.fits)) {
        this.#await(demand, ways, false)
        return
      }
      const start = startOnDevices(this.#floor, demand, ways)
      if (start === undefined) return
      this.#starts.push(start)
    }
  }

  /** A model that is served gets a copy more where that is sooner than waiting. */
  #addCopy(demand: Demand): void {
    for (let more = true; more && leftOf(demand) > 0 && this.#floor.free >= 1; ) {
      more = paysAnother(demand, this.#floor, 0) && this.#open(demand, true)
    }
  }

  /** Loads a copy if there is a place, or makes one. Whether it was loaded. */
  #open(demand: Demand, gentle: boolean): boolean {
    if (!this.#hasShared(demand)) return false
    // Where nothing says how much there may be of it, one copy is enough for a worker.
    if (demand.asks.length === 0 && this.#floor.copiesOf(demand.model!).some(({ mine }) => mine)) return false
    const ways = chooseDevices(demand, this.#terms(gentle))
    if (ways === undefined) return false
    if (ways.some(({ ease }) => ease !== EASE.fits)) {
      this.#await(demand, ways, gentle)
      return false
    }
    const shares = ways.map(({ spot, ask }) => ({
      budget: spot.budget,
      device: spot.device,
      amount: ask.resident,
    }))
    const copy = this.#floor.addCopy(demand.model!, shares)
    const starts = startOnCopy(this.#floor, demand, copy)
    // Classes of one model may differ in what their jobs need, and the one that asked for the copy may lack a shared budget.
    if (starts.length === 0) this.#floor.removeCopy(copy)
    this.#starts.push(...starts)
    return starts.length > 0
  }

  #hasShared(demand: Demand): boolean {
    return demand.queues.some(
      (queue) =>
        queue.left > 0 && queue.shared.every(({ budget, each }) => this.#floor.shared.get(budget)! >= each),
    )
  }

  /** A copy that is there has no room for a job beside it: others on its devices go. */
  #widen(demand: Demand, copy: Copy): void {
    if (!this.#hasShared(demand)) return
    const terms = this.#terms(false)
    const ways: Way[] = []
    for (const share of copy.shares) {
      const spot = this.#floor.spotOf(share)!
      const ask = demand.asks.find(({ budget }) => budget === share.budget)
      const missing = (ask?.perJob ?? 0) - spot.room
      if (ask === undefined || missing <= 0) continue
      ways.push(clear(demand, spot, { ...ask, resident: 0 }, missing, terms))
    }
    if (ways.length > 0) this.#await(demand, ways, false)
  }

  /** There is no room yet: has idle copies in the way unloaded, stops those that may be stopped, and keeps the room. */
  #await(demand: Demand, ways: readonly Way[], gentle: boolean): void {
    const hardest = Math.max(...ways.map(({ ease }) => ease))
    for (const { until } of ways) this.#lookAgainAt(until)
    this.#lookAgainAt(demand.dueAt)
    // A further copy is a convenience: it waits for nobody, and pays for what it drives out.
    if (gentle) {
      const reloadMs = ways.reduce((sum, { cost }) => sum + cost, 0)
      if (hardest > EASE.unload || !paysAnother(demand, this.#floor, reloadMs)) return
    }
    this.#verdicts.set(demand, explain(demand, ways, this.#firmly))
    if (hardest === EASE.blocked) return
    const from = this.#freeFrom(ways)
    // Nobody is stopped before all can be, and nobody whose jobs will have ended by then.
    if (hardest <= EASE.drain)
      for (const { victims } of ways)
        for (const copy of victims)
          if (from === null || this.#floor.now + timesOf(copy.model, this.#picture).runMs >= from)
            this.#stop(demand, copy)
    const firm = demand.due || hardest === EASE.unload
    for (const { spot, ask } of ways) {
      const need = ask.resident + ask.perJob
      const promised = Math.min(need, spot.pending)
      spot.pending -= promised
      spot.kept.push({ amount: need - promised, demand, firm, from })
    }
  }

  /** When the last of the copies in the way has ended its turn or its jobs, as far as one can say; `null` when none has any. */
  #freeFrom(ways: readonly Way[]): number | null {
    let from: number | null = null
    for (const { victims, until } of ways) {
      if (until !== null) from = Math.max(from ?? 0, until)
      for (const copy of victims)
        if (copy.running > 0) from = Math.max(from ?? 0, this.#floor.now + drainMs(copy, this.#firmly))
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
      const spot = this.#floor.spotOf(share)
      if (spot !== undefined) spot.pending += share.amount
    }
    if (copy.running > 0) return
    const { model, shares } = copy
    this.#unloads.push({ resident: copy.view!.id, model, shares, inFavourOf })
  }

  #terms(gentle: boolean): Terms {
    return gentle ? this.#gently : this.#firmly
  }

  #ownerOf(model: string): Demand | undefined {
    const owner = this.#ofModel.get(model)
    return owner?.queues.some(({ left }) => left > 0) === true ? owner : undefined
  }

  #lookAgainAt(at: number | null): void {
    if (at !== null && at > this.#floor.now)
      this.#lookAgainMs = Math.min(this.#lookAgainMs, at - this.#floor.now)
  }

  #allVerdicts(): Plan['verdicts'] {
    return this.#demands.flatMap((demand) =>
      demand.queues
        .filter((queue) => queue.left > 0 || queue.view.most < queue.view.depth)
        .map((queue) => {
          const { classId } = queue.view
          if (queue.left === 0) return { classId, why: { kind: 'lane-full' as const } }
          const full = queue.shared.find(({ budget, each }) => this.#floor.shared.get(budget)! < each)
          if (full !== undefined) {
            const room = this.#floor.shared.get(full.budget)!
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
    if (this.#floor.free < 1) return { kind: 'no-capacity' }
    const busy = explainBusy(demand, this.#floor)
    if (busy !== undefined) return busy
    const ways = chooseDevices(demand, this.#terms(false))
    return explain(demand, ways, this.#firmly)
  }
}
