import { type Queryable, statement } from '../db/database.ts'
import type { JobState } from '../model/job.ts'

export interface RunPathJob {
  /** 0 is the root. */
  readonly depth: number
  readonly id: string
  readonly state: JobState
  readonly input: unknown
}

// Steps are found by their names, since a newer version of the workflow may have them in another order.
const LOAD = statement(
  'load_run_path',
  `with recursive walk as (
     select j.id, j.composite, 0 as depth from sluice.job_data j where j.id = $1
     union all
     select k.id, k.composite, w.depth + 1
       from walk w
      cross join lateral (
        select x.id, x.composite from sluice.job_data x
         where w.composite = 'fanout' and x.parent_id = w.id and x.superseded_at is null and x.idx = ($3::integer[])[w.depth + 1]
        union all
        select x.id, x.composite from sluice.job_data x
         where w.composite <> 'fanout' and x.parent_id = w.id and x.superseded_at is null and x.step = ($2::text[])[w.depth + 1]) k
      where w.depth < cardinality($2)
   )
   select w.depth, j.id, j.state, j.input from walk w join sluice.jobs j on j.id = w.id order by w.depth`,
)

/** The jobs of another run along a path, as far as it has them. */
export async function loadRunPath(
  db: Queryable,
  root: string,
  path: readonly { readonly step: string | null; readonly index: number | null }[],
): Promise<RunPathJob[]> {
  return db.run<RunPathJob & Record<string, unknown>>(LOAD, [
    root,
    path.map(({ step }) => step),
    path.map(({ index }) => index),
  ])
}
