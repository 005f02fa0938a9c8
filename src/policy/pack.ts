import type { CopyAsk, Demand } from './demand.ts'
import { type Candidate, cheapestSet } from './evict.ts'
import { binds, type Copy, type Floor, roomFor, type Spot } from './floor.ts'
import { mayTake } from './hold.ts'
import type { ModelView } from './picture.ts'

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

export interface Way {
  readonly spot: Spot
  readonly ask: CopyAsk
  readonly ease: (typeof EASE)[keyof typeof EASE]
  /** Milliseconds of loading and waiting that it costs. */
  readonly cost: number
  /** What is left of the device's room: the least is best, so that large holes stay for large models. */
  readonly leftOver: number
  readonly victims: readonly Copy[]
  /** When the last of them may be taken. */
  readonly until: number | null
}

export interface Terms {
  readonly floor: Floor
  /** What can start and waits for a model. */
  readonly ownerOf: (model: string) => Demand | undefined
  readonly timesOf: (model: string) => ModelView
  /** Of the budgets that a copy draws from. */
  readonly quantumOf: (copy: Copy) => number
  /** Takes only from models that nobody waits for, or of lower priority: for a further copy of a model that is served. */
  readonly gentle: boolean
}

/**
 * The best devices for a copy (or a job without a model): `undefined` when some budget has too few that are large enough.
 *
 * Those where it fits come first, then the cheapest to clear; among equals the one that it fills best.
 */
export function chooseDevices(demand: Demand, terms: Terms): readonly Way[] | undefined {
  const chosen: Way[] = []
  for (const ask of demand.asks) {
    const fitting: Way[] = []
    const others: Spot[] = []
    for (const spot of terms.floor.spots(ask.budget)) {
      const way = fitOn(demand, ask, spot)
      if (way !== undefined) fitting.push(way)
      else others.push(spot)
    }
    // Looking at what could go from a device is the dear part: only where there is not enough room without.
    const ways =
      fitting.length >= ask.devices ? fitting : fitting.concat(clearings(demand, ask, others, terms))
    if (ways.length < ask.devices) return undefined
    chosen.push(...easiest(ways, ask.devices))
  }
  return chosen
}

/** Usually one of many, so without sorting them. */
function easiest(ways: readonly Way[], count: number): readonly Way[] {
  if (count > 1) return [...ways].sort(compare).slice(0, count)
  return [ways.reduce((best, way) => (compare(way, best) < 0 ? way : best))]
}

function compare(one: Way, other: Way): number {
  if (one.ease !== other.ease) return one.ease - other.ease
  if (one.cost !== other.cost) return one.cost - other.cost
  if (one.leftOver !== other.leftOver) return one.leftOver < other.leftOver ? -1 : 1
  return one.spot.device < other.spot.device ? -1 : 1
}

function fitOn(demand: Demand, ask: CopyAsk, spot: Spot): Way | undefined {
  const need = ask.resident + ask.perJob
  const leftOver = roomFor(demand, spot) - need
  if (need > spot.capacity || leftOver < 0 || hasCopyOf(spot, demand)) return undefined
  return wayOf(spot, ask, EASE.fits, 0, leftOver)
}

function hasCopyOf(spot: Spot, demand: Demand): boolean {
  return demand.model !== null && spot.copies.some((copy) => isCopyOf(copy, demand))
}

const NOBODY: readonly Copy[] = []

/** How the demand gets onto devices without room. Not onto those that are too small, or keep a copy of its model. */
function clearings(demand: Demand, ask: CopyAsk, spots: readonly Spot[], terms: Terms): Way[] {
  const need = ask.resident + ask.perJob
  const ways: Way[] = []
  for (const spot of spots) {
    if (need > spot.capacity) continue
    // Where a copy of it is just leaving, the next one waits for that. Where one stays there is no place for another.
    if (spot.copies.some((copy) => !copy.stopped && isCopyOf(copy, demand))) continue
    const missing = Math.max(0, need - roomFor(demand, spot))
    // Most devices are out of the question at a glance, and this is the innermost loop: nothing is built for those.
    if (terms.gentle && missing > spot.pending + mostFreed(demand, spot, terms)) continue
    const way = clear(demand, spot, ask, missing, terms)
    if (!terms.gentle || way.ease < EASE.blocked) ways.push(way)
  }
  return ways
}

function isCopyOf(copy: Copy, demand: Demand): boolean {
  return copy.mine && copy.model === demand.model
}

/** Written out: spreading one object into another was half of the time of a decision. */
function wayOf(
  spot: Spot,
  ask: CopyAsk,
  ease: Way['ease'],
  cost: number,
  leftOver: number,
  victims: readonly Copy[] = NOBODY,
  until: number | null = null,
): Way {
  return { spot, ask, ease, cost, leftOver, victims, until }
}

/** How to come by what is missing on a device. */
export function clear(demand: Demand, spot: Spot, ask: CopyAsk, missing: number, terms: Terms): Way {
  const promised = spot.pending
  if (missing <= promised) return wayOf(spot, ask, EASE.unload, 0, promised - missing)
  const deficit = missing - promised
  if (mostFreed(demand, spot, terms) < deficit) return wayOf(spot, ask, EASE.blocked, 0, 0)
  const { now } = terms.floor
  const idle: Candidate<Copy>[] = []
  const running: Candidate<Copy>[] = []
  const later: (Candidate<Copy> & { readonly at: number })[] = []
  for (const copy of spot.copies) {
    if (!isCandidate(copy, demand, terms)) continue
    const taking = mayTakeNow(demand, copy, terms)
    if (!taking.allowed && taking.at === null) continue
    const amount = amountOn(spot, copy)
    const cost = reloadCost(copy, terms)
    if (!taking.allowed) later.push({ item: copy, amount, cost: cost + (taking.at! - now), at: taking.at! })
    else if (copy.running === 0) idle.push({ item: copy, amount, cost })
    else running.push({ item: copy, amount, cost: cost + drainMs(copy, terms) })
  }
  const byUnload = cheapestSet(idle, deficit)
  if (byUnload !== undefined) return finish(spot, ask, EASE.unload, byUnload, deficit, null)
  // A further copy waits for nobody.
  if (terms.gentle) return wayOf(spot, ask, EASE.blocked, 0, 0)
  const byDrain = cheapestSet([...idle, ...running], deficit)
  if (byDrain !== undefined) return finish(spot, ask, EASE.drain, byDrain, deficit, null)
  const byWait = cheapestSet([...idle, ...running, ...later], deficit)
  if (byWait === undefined) return wayOf(spot, ask, EASE.blocked, 0, 0)
  const ends = later.filter(({ item }) => byWait.chosen.some((chosen) => chosen.item === item))
  return finish(spot, ask, EASE.wait, byWait, deficit, Math.max(...ends.map(({ at }) => at)))
}

function finish(
  spot: Spot,
  ask: CopyAsk,
  ease: Way['ease'],
  { chosen, cost }: { readonly chosen: readonly Candidate<Copy>[]; readonly cost: number },
  deficit: number,
  until: number | null,
): Way {
  let freed = 0
  for (const { amount } of chosen) freed += amount
  const victims = chosen.map(({ item }) => item)
  return wayOf(spot, ask, ease, cost, freed - deficit, victims, until)
}

/** The copies that leave a device which holds more than it has: the cheapest that are enough, or all that may. */
export function leavers(spot: Spot, terms: Terms): readonly Copy[] {
  const candidates = spot.copies
    .filter((copy) => !copy.stopped && copy.view?.pinned === false)
    .map((copy) => ({ item: copy, amount: amountOn(spot, copy), cost: reloadCost(copy, terms) }))
  const deficit = spot.over - spot.pending
  if (deficit <= 0) return NOBODY
  return (cheapestSet(candidates, deficit)?.chosen ?? candidates).map(({ item }) => item)
}

/** What would be free if all went that could. */
function mostFreed(demand: Demand, spot: Spot, terms: Terms): number {
  let amount = 0
  for (const copy of spot.copies) if (isCandidate(copy, demand, terms)) amount += amountOn(spot, copy)
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

function mayTakeNow(demand: Demand, copy: Copy, { floor, ownerOf }: Terms) {
  const owner = ownerOf(copy.model)
  const spare = floor.copiesOf(copy.model).some((other) => other !== copy && !other.stopped)
  return mayTake(demand, copy, owner, { now: floor.now, spare: spare && demand.model !== null })
}

export function amountOn(spot: Spot, copy: Copy): number {
  let amount = 0
  for (const share of copy.shares)
    if (share.budget === spot.budget && share.device === spot.device) amount += share.amount
  return amount
}

/**
 * What it costs to have the copy back, in milliseconds, times how likely that is needed soon.
 *
 * Certain while jobs wait for it. Otherwise it halves with each quantum until the next job, roughly. A model that rests for a minute between
 * jobs is wanted a minute after its last one; when that has passed, the longer it rests, the less likely it comes back. Going by the
 * time since its last job alone drives out the one that is wanted next where models are used in turn.
 */
function reloadCost(copy: Copy, { floor, ownerOf, timesOf, quantumOf }: Terms): number {
  const { loadMs, restMs } = timesOf(copy.model)
  if (ownerOf(copy.model) !== undefined) return 2 * loadMs
  const idleMs = Math.max(0, floor.now - (copy.view?.idleSince ?? floor.now))
  const nextMs = Math.abs((restMs ?? 0) - idleMs)
  return loadMs / (1 + nextMs / (quantumOf(copy) * loadMs + 1))
}

/** Until its jobs have ended, as far as one can say. */
export function drainMs(copy: Copy, { timesOf }: Terms): number {
  const { loadMs, runMs } = timesOf(copy.model)
  const loading = copy.view !== undefined && copy.view.loadedAt === null
  return runMs + (loading ? loadMs : 0)
}

/** Who keeps the demand from room that there is. */
export function keeperOf(demand: Demand, spot: Spot): Demand | undefined {
  return spot.kept.find((kept) => kept.amount > 0 && binds(kept, demand))?.demand
}
