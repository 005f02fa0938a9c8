import type { GraphNode } from './use-workflow.ts'

/** Counting 100,000 children takes the database a tenth of a second: not with every change of one of them. */
const SMALL = 2000
const REST_MS = 4000
/** What is asked for anew with every change is of no use once the next answer is there: kept for longer, it adds up. */
const KEPT_MS = 5000

/**
 * How to keep up with the children of a fan-out: a small one is read anew whenever its numbers change (`stamp` belongs into
 * the key of the question), a large one every few seconds while it runs.
 */
export function paceOf({ counts, status }: GraphNode, ended: boolean) {
  const small = (counts?.total ?? 0) <= SMALL
  return {
    stamp: small || ended ? [counts?.completed, counts?.failed, counts?.inFlight, status] : [],
    refetchInterval: ended ? (false as const) : REST_MS,
    gcTime: KEPT_MS,
  }
}
