import type { Demand } from './demand.ts'
import type { Copy, PlacementState } from './placement-state.ts'
import type { ModelView } from './plan-input.ts'

export interface ReloadTerms {
  readonly state: PlacementState
  /** The demand that waits for a model and can start; `undefined` if there is none. */
  readonly ownerOf: (model: string) => Demand | undefined
  readonly timesOf: (model: string) => ModelView
  /** The quantum of the budgets that a copy draws from. */
  readonly quantumOf: (copy: Copy) => number
}

/**
 * Ranks copies for eviction, the cheapest first: the milliseconds it takes to load the copy again, weighted by how soon its model will be needed.
 *
 * While jobs wait for the model, the copy costs twice its load time. Otherwise the cost starts at the load time and falls as the expected time
 * until the next job grows; it is about half when that time is one turn (quantum times load time). The next job is expected when the model has
 * been idle for as long as it usually rests between two jobs. After that, the longer the model stays idle, the less likely it is needed soon.
 * Ranking by idle time alone would evict exactly the model that is needed next when models are used in turn.
 */
export function reloadCost(copy: Copy, { state, ownerOf, timesOf, quantumOf }: ReloadTerms): number {
  const { loadMs, restMs } = timesOf(copy.model)
  if (ownerOf(copy.model) !== undefined) return 2 * loadMs
  const idleMs = Math.max(0, state.now - (copy.view?.idleSince ?? state.now))
  const nextMs = Math.abs((restMs ?? 0) - idleMs)
  return loadMs / (1 + nextMs / (quantumOf(copy) * loadMs + 1))
}
