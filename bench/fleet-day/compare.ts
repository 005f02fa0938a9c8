import { POOL_DEFAULTS } from '../../src/model/pool.ts'
import { type Day, type DayResult, type FleetPlan, playDay } from './day.ts'

/** A pool as it is without a word of its operator. */
export const USUAL: FleetPlan = {
  idleMs: POOL_DEFAULTS.idleMs!,
  order: 'fill',
  start: 'overflow',
  cooldownMs: POOL_DEFAULTS.cooldownMs,
}

/** Plans whose idle timeout is chosen when the day is over. */
export const RIVALS = {
  'same rules': USUAL,
  'at once': { ...USUAL, start: 'at once' },
  'in turn': { ...USUAL, order: 'round-robin' },
  'in turn, at once': { ...USUAL, order: 'round-robin', start: 'at once' },
} as const satisfies Readonly<Record<string, FleetPlan>>

export interface Rival {
  /** Between two that were tried. */
  readonly idleMs: number
  readonly workerHours: number
  readonly meanWaitMs: number
  readonly p95WaitMs: number
  /** Our hours for one of its. */
  readonly ratio: number
}

/** From half a second, where each job gets a worker of its own, to an hour and a half. */
const TIMEOUTS = Array.from({ length: 43 }, (_, step) => 500 * 1.25 ** step)

/**
 * The fewest hours for which a plan lets jobs wait as little as `ours` did, on average, whatever its idle timeout.
 *
 * Longer timeouts cost more and wait less, but not evenly: all places count where two neighbouring timeouts have the wait
 * between them, in a straight line between the two, and the cheapest of them is taken. `undefined`: none waits so little.
 */
export function inHindsight(day: Day, plan: FleetPlan, ours: DayResult): Rival | undefined {
  const all = TIMEOUTS.map((idleMs) => ({ idleMs, ...playDay(day, { ...plan, idleMs }) }))
  const wanted = ours.meanWaitMs
  let best: Omit<Rival, 'ratio'> | undefined
  for (const [index, one] of all.entries()) {
    if (one.meanWaitMs > wanted) continue
    const before = all[index - 1]
    const share =
      before === undefined || before.meanWaitMs <= wanted
        ? 1
        : (before.meanWaitMs - wanted) / (before.meanWaitMs - one.meanWaitMs)
    const between = (field: Exclude<keyof Rival, 'ratio'>) =>
      (before?.[field] ?? 0) * (1 - share) + one[field] * share
    const workerHours = between('workerHours')
    if (best !== undefined && workerHours >= best.workerHours) continue
    const [idleMs, meanWaitMs, p95WaitMs] = [between('idleMs'), between('meanWaitMs'), between('p95WaitMs')]
    best = { idleMs, workerHours, meanWaitMs, p95WaitMs }
  }
  return best === undefined ? undefined : { ...best, ratio: ours.workerHours / best.workerHours }
}
