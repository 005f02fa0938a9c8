import { type Queryable, statement } from '../db/database.ts'

export interface Outcome {
  readonly parent: string
  readonly place: number
  readonly result: unknown
  readonly error: string | null
}

// A fan-out's result is the list of its children's, in order. What did not complete has none, nor has a fan-out that could
// not begin: it has no composite's row.
const LOAD = statement(
  'load_outcomes',
  `select j.parent_id as parent, j.idx as place, j.error,
          case j.composite when 'fanout'
            then (select coalesce((select jsonb_agg(k.result order by k.idx) from sluice.jobs k
                                    where k.parent_id = j.id and k.superseded_at is null), '[]')
                    from sluice.composites c where c.job_id = j.id)
            else j.result end as result
     from unnest($1::bigint[], $2::integer[]) w(parent, place)
     join sluice.jobs j on j.parent_id = w.parent and j.idx = w.place and j.superseded_at is null`,
)

/** Results and errors of children, given by parent and place. */
export async function loadOutcomes(
  db: Queryable,
  wanted: readonly { readonly parent: string; readonly place: number }[],
): Promise<Outcome[]> {
  return db.run<Outcome & Record<string, unknown>>(LOAD, [
    wanted.map((each) => each.parent),
    wanted.map((each) => each.place),
  ])
}
