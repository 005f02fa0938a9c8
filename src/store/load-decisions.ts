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

const CHILD = 'x.id, x.parent_id, x.idx, x.step, x.composite, x.state, x.error, x.finished_at'

// Of a fan-out those that failed, of a workflow or group all steps.
const LOAD = statement(
  'load_decisions',
  `select k.id, p.id as "parentId", k.idx as "index", k.step, k.composite as kind, k.state, k.error, k.finished_at as "finishedAt",
          c.graph, c.node
     from sluice.jobs p
    cross join lateral (
      (select ${CHILD} from sluice.jobs x where p.composite <> 'fanout' and x.parent_id = p.id and x.superseded_at is null
        order by x.idx limit $2)
      union all
      (select ${CHILD} from sluice.jobs x where p.composite = 'fanout' and p.state <> 'completed' and x.parent_id = p.id
           and x.superseded_at is null and x.state = 'failed' order by x.idx limit $3)
      union all
      (select ${CHILD} from sluice.jobs x where p.composite = 'fanout' and p.state <> 'completed' and x.parent_id = p.id
           and x.superseded_at is null and x.state = 'cancelled' order by x.idx limit $3)) k
     left join sluice.composites c on c.job_id = k.id
    where p.id = any ($1::bigint[])
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
