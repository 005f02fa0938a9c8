import type { Queryable } from '../../db/database.ts'
import { foreseeFailure } from '../../workflow/advance/strategy.ts'
import { stepAt } from '../../workflow/graph.ts'
import { GraphCache } from './graph-cache.ts'

/** A fan-out that runs, as views have it. */
export interface RunningFanOut {
  readonly id: string
  readonly graph: string | null
  readonly node: string | null
  readonly total: number | null
  readonly completed: number | null
  readonly failed: number | null
  readonly cancelled: number | null
}

/**
 * Why fan-outs that run cannot succeed any more, by their ids; those that still can are not in it. Reads something only where
 * children failed.
 */
export async function findFanOutFailures(
  db: Queryable,
  fanOuts: readonly RunningFanOut[],
): Promise<ReadonlyMap<string, string>> {
  const doubtful = fanOuts.filter(({ failed, cancelled }) => (failed ?? 0) + (cancelled ?? 0) > 0)
  if (doubtful.length === 0) return new Map()
  const graphs = new GraphCache(db)
  await graphs.load(doubtful.map(({ graph }) => graph))
  return new Map(
    doubtful.flatMap(({ id, graph, node, total, completed, failed, cancelled }) => {
      if (graph === null || node === null || total === null) return []
      const tally = { completed: completed ?? 0, failed: failed ?? 0, cancelled: cancelled ?? 0, skipped: 0 }
      const why = foreseeFailure(stepAt(graphs.get(graph), node), { ...tally, total })
      return why === undefined ? [] : [[id, why]]
    }),
  )
}
