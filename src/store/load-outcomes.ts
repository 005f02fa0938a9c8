import { type Queryable, statement } from '../db/database.ts'

export interface Outcome {
  readonly parent: string
  readonly index: number
  readonly result: unknown
  /** Bytes of the result where that is more than is loaded. */
  readonly tooLarge: number | null
  readonly error: string | null
}

/** What is loaded at once, as JSON. It has to be in memory several times over. */
export const MAX_OUTCOME_BYTES = 64 * 1024 * 1024

/** Where values take no more room than this on disk, they are not measured: they count as if they were compressed as well as can be. */
const NOT_MEASURED = 2048
const BEST_COMPRESSION = 256

// A fan-out's result is the list of its children's, in order. What did not complete has none, nor has a fan-out that could
// not begin: it has no composite's row. Sizes are known before anything is put together.
//
// Children and outcomes are looked up one by one ("offset 0"): joined, a plan that was made while a table was empty reads all of it
// for each of them. Only what has ended has a result or an error here, so the view `sluice.jobs` is not needed.
const LOAD = statement(
  'load_outcomes',
  `with found as materialized (
     select w.turn, j.id, w.parent, j.idx, o.error, j.composite, o.result,
            case when s.stored <= $4 then s.stored * $5
                 when j.composite = 'fanout' then (select coalesce(sum(octet_length(e.result::text) + 2), 0) from sluice.job_data k
                                                    cross join lateral (select o.result from sluice.outcomes o where o.id = k.id offset 0) e
                                                    where k.parent_id = j.id and k.superseded_at is null)
                 else octet_length(o.result::text) end as bytes
       from unnest($1::bigint[], $2::integer[]) with ordinality w(parent, index, turn)
      cross join lateral (select d.id, d.idx, d.composite from sluice.job_data d
                           where d.parent_id = w.parent and d.idx = w.index and d.superseded_at is null offset 0) j
       left join lateral (select o.error, o.result from sluice.outcomes o where o.id = j.id offset 0) o on true
      cross join lateral (
        select case j.composite when 'fanout'
                 then (select coalesce(sum(pg_column_size(e.result)), 0) from sluice.job_data k
                        cross join lateral (select o.result from sluice.outcomes o where o.id = k.id offset 0) e
                        where k.parent_id = j.id and k.superseded_at is null)
                 else coalesce(pg_column_size(o.result), 0) end as stored) s
   ), summed as (
     -- The large ones are left out first.
     select f.*, sum(f.bytes) over (partition by f.parent order by f.bytes, f.idx) as upto, min(f.turn) over (partition by f.parent) as first from found f
   ), parents as (
     -- Of one parent, all rows have the same sum.
     select s.*, sum(s.bytes) filter (where s.upto <= $3) over (order by s.first) as through from summed s
   )
   select s.parent, s.idx as index, s.error, case when s.upto > $3 then s.bytes::float8 end as "tooLarge",
          case when s.upto > $3 then null
               when s.composite = 'fanout'
               then (select coalesce((select jsonb_agg(e.result order by k.idx) from sluice.job_data k
                                        left join lateral (select o.result from sluice.outcomes o where o.id = k.id offset 0) e on true
                                       where k.parent_id = s.id and k.superseded_at is null), '[]')
                       from sluice.composites c where c.job_id = s.id)
               else s.result end as result
     from parents s where coalesce(s.through, 0) <= $3`,
)

/**
 * Results and errors of children, given by parent and index: of the first parents as many as `maxBytes` hold, of the others nothing. Where
 * the results of one parent are larger together, its smaller ones come, and of the others only how large they are.
 */
export async function loadOutcomes(
  db: Queryable,
  wanted: readonly { readonly parent: string; readonly index: number }[],
  maxBytes = MAX_OUTCOME_BYTES,
): Promise<Outcome[]> {
  return db.run<Outcome & Record<string, unknown>>(LOAD, [
    wanted.map((each) => each.parent),
    wanted.map((each) => each.index),
    maxBytes,
    NOT_MEASURED,
    BEST_COMPRESSION,
  ])
}
