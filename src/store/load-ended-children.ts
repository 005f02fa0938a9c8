import { type Queryable, statement } from '../db/database.ts'
import type { CompositeKind, JobState } from '../model/job.ts'

export interface EndedChild {
  readonly id: string
  readonly parentId: string
  readonly index: number
  readonly kind: CompositeKind | null
  readonly state: JobState
  readonly stillborn: boolean
  readonly graph: string | null
  readonly node: string | null
  readonly version: number | null
}

// Down from $1 through everything that failed, and beside that the children of $2. Of a fan-out only composites that
// failed: its leaf jobs may be a hundred thousand, and nothing is to be decided about each of them.
const LOAD = statement(
  'load_ended_children',
  `with recursive failed as (
     select j.id, j.composite from sluice.job_data j where j.id = any ($1::bigint[]) and j.composite is not null
     union all
     select k.id, k.composite from failed f join sluice.jobs k on k.parent_id = f.id and k.superseded_at is null
      where k.composite is not null and k.state in ('failed', 'cancelled')
   ), parents as (
     select f.id, f.composite from failed f
     union
     select j.id, j.composite from sluice.job_data j where j.id = any ($2::bigint[])
   )
   select k.id, k.parent_id as "parentId", k.idx as "index", k.composite as kind, k.state,
          k.state = 'failed' and k.attempt = 0 and c.job_id is null and k.error not like 'capacity:%' as stillborn,
          c.graph, c.node, c.version
     from parents p
     join sluice.jobs k on k.parent_id = p.id and k.superseded_at is null
      and (p.composite <> 'fanout' or k.composite is not null and k.state in ('failed', 'cancelled'))
     left join sluice.composites c on c.job_id = k.id
    order by k.parent_id, k.idx`,
)

/** What is needed to plan a rerun: the children of everything that failed below `failed`, and those of `others`. */
export async function loadEndedChildren(
  db: Queryable,
  failed: readonly string[],
  others: readonly string[],
): Promise<EndedChild[]> {
  return db.run<EndedChild & Record<string, unknown>>(LOAD, [failed, others])
}
