import { type Queryable, statement } from '../db/database.ts'
import type { CompositeKind, JobState } from '../model/job.ts'

/** What became of a step, or of an item of a fan-out. */
export interface DecidedRow {
  readonly id: string
  readonly parentId: string
  readonly index: number
  readonly step: string
  readonly kind: CompositeKind | null
  readonly state: JobState
  readonly error: string | null
  readonly finishedAt: Date | null
  /** Of a composite that has begun. */
  readonly graph: string | null
  readonly node: string | null
}

// Of a fan-out those that failed, of a workflow or group all steps.
const LOAD = statement(
  'load_decisions',
  `select k.id, k.parent_id as "parentId", k.idx as "index", k.step, k.composite as kind, k.state, k.error, k.finished_at as "finishedAt",
          c.graph, c.node
     from sluice.jobs_by_id_v1(array(
            select i.id from sluice.jobs p
             cross join lateral (
               (select x.id from sluice.job_data x where p.composite <> 'fanout' and x.parent_id = p.id and x.superseded_at is null
                 order by x.idx limit $2)
               union all
               (select x.id from sluice.jobs x where p.composite = 'fanout' and p.state <> 'completed' and x.parent_id = p.id
                    and x.superseded_at is null and x.state = 'failed' order by x.idx limit $3)
               union all
               (select x.id from sluice.jobs x where p.composite = 'fanout' and p.state <> 'completed' and x.parent_id = p.id
                    and x.superseded_at is null and x.state = 'cancelled' order by x.idx limit $3)) i
             where p.id = any ($1::bigint[]))) k
     left join sluice.composites c on c.job_id = k.id
    order by k.parent_id, k.idx`,
)

/** What was decided in these composites. Of a fan-out only some failures. */
export async function loadDecisions(
  db: Queryable,
  parents: readonly string[],
  limits: { readonly steps: number; readonly failures: number },
): Promise<DecidedRow[]> {
  return db.run<DecidedRow & Record<string, unknown>>(LOAD, [parents, limits.steps, limits.failures])
}
