import { type Candidate, cheapestSet } from './cheapest-set.ts'
import type { CopyNeed, Demand } from './demand.ts'
import { type ReloadTerms, reloadCost } from './eviction-cost.ts'
import { mayEvict } from './may-evict.ts'
import { binds, type Copy, type DeviceBudget, roomFor } from './placement-state.ts'

/** What it takes to get a demand onto one device, easiest first. */
export const EASE = {
  /** There is room. */
  fits: 0,
  /** There will be, once idle copies are unloaded. */
  unload: 1,
  /** There will be, once copies that run jobs have ended them. */
  drain: 2,
  /** Copies are in the way that may stay until a known time. */
  wait: 3,
  /** Others are in the way, for as long as they like. */
  blocked: 4,
} as const

export interface Placement {
  readonly deviceBudget: DeviceBudget
  readonly need: CopyNeed
  readonly ease: (typeof EASE)[keyof typeof EASE]
  /** Milliseconds of loading and waiting that it costs. */
  readonly cost: number
  /** What is left of the device's room: the least is best, so that large holes stay for large models. */
  readonly leftOver: number
  readonly victims: readonly Copy[]
  /** When the last of them may be taken. */
  readonly until: number | null
}

export interface Terms extends ReloadTerms {
  /** Takes only from models that nobody waits for, or of lower priority: for a further copy of a model that is served. */
  readonly gentle: boolean
}

/**
 * The best devices for a copy (or a job without a model): `undefined` when some budget has too few that are large enough.
 *
 * Those where it fits come first, then the cheapest to clear; among equals the one that it fills best.
 */
export function chooseDevices(demand: Demand, terms: Terms): readonly Placement[] | undefined {
  const chosen: Placement[] = []
  for (const need of demand.needs) {
    const fitting: Placement[] = []
    const others: DeviceBudget[] = []
    for (const deviceBudget of terms.state.deviceBudgets(need.budget)) {
      const placement = fitOn(demand, need, deviceBudget)
      if (placement !== undefined) fitting.push(placement)
      else others.push(deviceBudget)
    }
    // Looking at what could go from a device is the dear part: only where there is not enough room without.
    const placements =
      fitting.length >= need.devices ? fitting : fitting.concat(clearings(demand, need, others, terms))
    if (placements.length < need.devices) return undefined
    chosen.push(...easiest(placements, need.devices))
  }
  return chosen
}

/** Usually one of many, so without sorting them. */
function easiest(placements: readonly Placement[], count: number): readonly Placement[] {
  if (count > 1) return [...placements].sort(compare).slice(0, count)
  return [placements.reduce((best, placement) => (compare(placement, best) < 0 ? placement : best))]
}

function compare(one: Placement, other: Placement): number {
  if (one.ease !== other.ease) return one.ease - other.ease
  if (one.cost !== other.cost) return one.cost - other.cost
  if (one.leftOver !== other.leftOver) return one.leftOver < other.leftOver ? -1 : 1
  return one.deviceBudget.device < other.deviceBudget.device ? -1 : 1
}

function fitOn(demand: Demand, need: CopyNeed, deviceBudget: DeviceBudget): Placement | undefined {
  const amount = need.resident + need.perJob
  const leftOver = roomFor(demand, deviceBudget) - amount
  if (amount > deviceBudget.capacity || leftOver < 0 || hasCopyOf(deviceBudget, demand)) return undefined
  return placementOf(deviceBudget, need, EASE.fits, 0, leftOver)
}

function hasCopyOf(deviceBudget: DeviceBudget, demand: Demand): boolean {
  return demand.model !== null && deviceBudget.copies.some((copy) => isCopyOf(copy, demand))
}

const NOBODY: readonly Copy[] = []

/** How the demand gets onto devices without room. Not onto those that are too small, or keep a copy of its model. */
function clearings(
  demand: Demand,
  need: CopyNeed,
  deviceBudgets: readonly DeviceBudget[],
  terms: Terms,
): Placement[] {
  const amount = need.resident + need.perJob
  const placements: Placement[] = []
  for (const deviceBudget of deviceBudgets) {
    if (amount > deviceBudget.capacity) continue
    // Where a copy of it is just leaving, the next one waits for that. Where one stays there is no place for another.
    if (deviceBudget.copies.some((copy) => !copy.stopped && isCopyOf(copy, demand))) continue
    const missing = Math.max(0, amount - roomFor(demand, deviceBudget))
    // Most devices are out of the question at a glance, and this is the innermost loop: nothing is built for those.
    if (terms.gentle && missing > deviceBudget.pending + mostFreed(demand, deviceBudget, terms)) continue
    const placement = clear(demand, deviceBudget, need, missing, terms)
    if (!terms.gentle || placement.ease < EASE.blocked) placements.push(placement)
  }
  return placements
}

function isCopyOf(copy: Copy, demand: Demand): boolean {
  return copy.mine && copy.model === demand.model
}

/** Written out: spreading one object into another was half of the time of a decision. */
function placementOf(
  deviceBudget: DeviceBudget,
  need: CopyNeed,
  ease: Placement['ease'],
  cost: number,
  leftOver: number,
  victims: readonly Copy[] = NOBODY,
  until: number | null = null,
): Placement {
  return { deviceBudget, need, ease, cost, leftOver, victims, until }
}

/** How to come by what is missing on a device. */
export function clear(
  demand: Demand,
  deviceBudget: DeviceBudget,
  need: CopyNeed,
  missing: number,
  terms: Terms,
): Placement {
  const promised = deviceBudget.pending
  if (missing <= promised) return placementOf(deviceBudget, need, EASE.unload, 0, promised - missing)
  const deficit = missing - promised
  if (mostFreed(demand, deviceBudget, terms) < deficit)
    return placementOf(deviceBudget, need, EASE.blocked, 0, 0)
  const { now } = terms.state
  const idle: Candidate<Copy>[] = []
  const running: Candidate<Copy>[] = []
  const later: (Candidate<Copy> & { readonly at: number })[] = []
  for (const copy of deviceBudget.copies) {
    if (!isCandidate(copy, demand, terms)) continue
    const taking = mayTakeNow(demand, copy, terms)
    if (!taking.allowed && taking.at === null) continue
    const amount = amountOn(deviceBudget, copy)
    const cost = reloadCost(copy, terms)
    if (!taking.allowed) later.push({ item: copy, amount, cost: cost + (taking.at! - now), at: taking.at! })
    else if (copy.running === 0) idle.push({ item: copy, amount, cost })
    else running.push({ item: copy, amount, cost: cost + drainMs(copy, terms) })
  }
  const byUnload = cheapestSet(idle, deficit)
  if (byUnload !== undefined) return finish(deviceBudget, need, EASE.unload, byUnload, deficit, null)
  // A further copy waits for nobody.
  if (terms.gentle) return placementOf(deviceBudget, need, EASE.blocked, 0, 0)
  const byDrain = cheapestSet([...idle, ...running], deficit)
  if (byDrain !== undefined) return finish(deviceBudget, need, EASE.drain, byDrain, deficit, null)
  const byWait = cheapestSet([...idle, ...running, ...later], deficit)
  if (byWait === undefined) return placementOf(deviceBudget, need, EASE.blocked, 0, 0)
  const ends = later.filter(({ item }) => byWait.chosen.some((chosen) => chosen.item === item))
  return finish(deviceBudget, need, EASE.wait, byWait, deficit, Math.max(...ends.map(({ at }) => at)))
}

function finish(
  deviceBudget: DeviceBudget,
  need: CopyNeed,
  ease: Placement['ease'],
  { chosen, cost }: { readonly chosen: readonly Candidate<Copy>[]; readonly cost: number },
  deficit: number,
  until: number | null,
): Placement {
  let freed = 0
  for (const { amount } of chosen) freed += amount
  const victims = chosen.map(({ item }) => item)
  return placementOf(deviceBudget, need, ease, cost, freed - deficit, victims, until)
}

/** The copies that leave a device which holds more than it has: the cheapest that are enough, or all that may. */
export function copiesToUnload(deviceBudget: DeviceBudget, terms: Terms): readonly Copy[] {
  const candidates = deviceBudget.copies
    .filter((copy) => !copy.stopped && copy.view?.pinned === false)
    .map((copy) => ({ item: copy, amount: amountOn(deviceBudget, copy), cost: reloadCost(copy, terms) }))
  const deficit = deviceBudget.over - deviceBudget.pending
  if (deficit <= 0) return NOBODY
  return (cheapestSet(candidates, deficit)?.chosen ?? candidates).map(({ item }) => item)
}

/** What would be free if all went that could. */
function mostFreed(demand: Demand, deviceBudget: DeviceBudget, terms: Terms): number {
  let amount = 0
  for (const copy of deviceBudget.copies)
    if (isCandidate(copy, demand, terms)) amount += amountOn(deviceBudget, copy)
  return amount
}

function isCandidate(copy: Copy, demand: Demand, { gentle, ownerOf }: Terms): boolean {
  if (copy.stopped || copy.view === undefined || copy.view.pinned || isCopyOf(copy, demand)) return false
  if (gentle && copy.running > 0) return false
  const owner = ownerOf(copy.model)
  return (
    owner === undefined || (gentle ? owner.priority < demand.priority : owner.priority <= demand.priority)
  )
}

function mayTakeNow(demand: Demand, copy: Copy, { state, ownerOf }: Terms) {
  const owner = ownerOf(copy.model)
  const spare = state.copiesOf(copy.model).some((other) => other !== copy && !other.stopped)
  return mayEvict(demand, copy, owner, { now: state.now, spare: spare && demand.model !== null })
}

export function amountOn(deviceBudget: DeviceBudget, copy: Copy): number {
  let amount = 0
  for (const share of copy.shares)
    if (share.budget === deviceBudget.budget && share.device === deviceBudget.device) amount += share.amount
  return amount
}

/** Until its jobs have ended, as far as one can say. */
export function drainMs(copy: Copy, { timesOf }: Terms): number {
  const { loadMs, runMs } = timesOf(copy.model)
  const loading = copy.view !== undefined && copy.view.loadedAt === null
  return runMs + (loading ? loadMs : 0)
}

/** Who keeps the demand from room that there is. */
export function keeperOf(demand: Demand, deviceBudget: DeviceBudget): Demand | undefined {
  return deviceBudget.kept.find((kept) => kept.amount > 0 && binds(kept, demand))?.demand
}
