import { type Demand, holdMs, quantumMs, standingOf } from './demand.ts'
import type { Copy } from './placement-state.ts'

/** When the copy has served its time, or `null` while it is being loaded. Of a copy that this plan loads, too. */
export function holdEnd(demand: Demand, copy: Copy): number | null {
  const loadedAt = copy.view?.loadedAt ?? null
  return loadedAt === null ? null : loadedAt + holdMs(demand, loadedAt)
}

export interface Taking {
  readonly allowed: boolean
  /** When that changes although nothing else happens. `null`: it does not, or nobody knows when. */
  readonly at: number | null
}

const YES: Taking = { allowed: true, at: null }
const NEVER: Taking = { allowed: false, at: null }

/**
 * A further copy of a model is loaded for work that takes at least this many of its loads, and serves for as many before it yields to a
 * model that has none: others may fit only where it lies, and each of them waits for it.
 */
export const SPARE_LOADS = 3

/**
 * Whether a demand may take the place of a copy once that is idle.
 *
 * At equal priority it also has to come before what waits for the copy, once neither is loaded. Otherwise the place it has
 * cleared would go straight back: one reload of the busy model in nine was such, where one has 95 % of the jobs.
 *
 * @param owner What waits for the copy's model, if anything that can start does.
 * @param spare The model is served by another copy as well.
 */
export function mayEvict(
  taker: Demand,
  copy: Copy,
  owner: Demand | undefined,
  { now, spare }: { readonly now: number; readonly spare: boolean },
): Taking {
  if (copy.view === undefined || copy.view.pinned) return NEVER
  if (owner === undefined) return YES
  if (owner === taker || owner.priority > taker.priority) return NEVER
  const { loadedAt } = copy.view
  if (loadedAt === null) return NEVER
  // Every job of the owner's that starts makes its oldest younger. A copy that has long been idle all the same cannot start any.
  const idleMs = copy.running > 0 ? 0 : now - (copy.view.idleSince ?? now)
  const serves = idleMs < owner.times.loadMs
  const at = takenFrom(taker, owner, loadedAt, { spare, serves })
  if (at > now) return { allowed: false, at }
  const returns =
    !spare && owner.priority === taker.priority && serves && standingOf(owner) < standingOf(taker)
  return returns ? { allowed: false, at: now + owner.times.runMs } : YES
}

/**
 * From when on the place of a copy may be taken.
 *
 * Where the copy serves, a taker waits for one quantum more: a higher priority from its arrival, an equal one from when it is due. The copy often
 * runs out of jobs in that time, and then nothing is interrupted. If a higher priority took the place at once, each of its jobs would cost two loads
 * (263 loads for 1,000 jobs where 70 are enough); if a model took it as soon as it is due, the mean wait would be 1.5 instead of 1.15 times that of
 * collating where one model has 95 % of the jobs and the device is busy for 80 % of the time. No model that is due waits for more than a second `maxWait` because of that.
 */
function takenFrom(
  taker: Demand,
  owner: Demand,
  loadedAt: number,
  { spare, serves }: { readonly spare: boolean; readonly serves: boolean },
): number {
  if (spare) return loadedAt + SPARE_LOADS * owner.times.loadMs
  if (taker.priority > owner.priority) return Math.max(loadedAt, taker.waitingSince) + quantumMs(owner)
  const patienceMs = serves ? Math.min(quantumMs(owner), taker.rules.maxWaitMs) : 0
  return Math.max(loadedAt + holdMs(owner, loadedAt), taker.dueAt + patienceMs)
}
