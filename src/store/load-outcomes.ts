import { type Queryable, statement } from '../db/database.ts'

export interface Outcome {
  readonly parent: string
  readonly place: number
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
const LOAD = statement(
  'load_outcomes',
  `with found as materialized (
     select w.turn, j.id, j.parent_id, j.idx, j.error, j.composite, j.result,
            case when s.stored <= $4 then s.stored * $5
                 when j.composite = 'fanout' then (select coalesce(sum(octet_length(k.result::text) + 2), 0) from sluice.jobs k
                                                    where k.parent_id = j.id and k.superseded_at is null)
                 else octet_length(j.result::text) end as bytes
       from unnest($1::bigint[], $2::integer[]) with ordinality w(parent, place, turn)
       join sluice.jobs j on j.parent_id = w.parent and j.idx = w.place and j.superseded_at is null
      cross join lateral (
        select case j.composite when 'fanout'
                 then (select coalesce(sum(pg_column_size(k.result)), 0) from sluice.jobs k where k.parent_id = j.id and k.superseded_at is null)
                 else coalesce(pg_column_size(j.result), 0) end as stored) s
   ), summed as materialized (
     -- The large ones are left out first.
     select f.*, sum(f.bytes) over (partition by f.parent_id order by f.bytes, f.idx) as upto from found f
   ), parents as (
     select p.parent_id, sum(p.bytes) over (order by p.turn) as upto
       from (select s.parent_id, min(s.turn) as turn, coalesce(sum(s.bytes) filter (where s.upto <= $3), 0) as bytes
               from summed s group by s.parent_id) p
   )
   select s.parent_id as parent, s.idx as place, s.error, case when s.upto > $3 then s.bytes::float8 end as "tooLarge",
          case when s.upto > $3 then null
               when s.composite = 'fanout'
               then (select coalesce((select jsonb_agg(k.result order by k.idx) from sluice.jobs k
                                       where k.parent_id = s.id and k.superseded_at is null), '[]')
                       from sluice.composites c where c.job_id = s.id)
               else s.result end as result
     from summed s join parents p on p.parent_id = s.parent_id and p.upto <= $3`,
)

/**
 * Results and errors of children, given by parent and place: of the first parents as many as `maxBytes` hold, of the others nothing. Where
 * the results of one parent are larger together, its smaller ones come, and of the others only how large they are.
 */
export async function loadOutcomes(
  db: Queryable,
  wanted: readonly { readonly parent: string; readonly place: number }[],
  maxBytes = MAX_OUTCOME_BYTES,
): Promise<Outcome[]> {
  return db.run<Outcome & Record<string, unknown>>(LOAD, [
    wanted.map((each) => each.parent),
    wanted.map((each) => each.place),
    maxBytes,
    NOT_MEASURED,
    BEST_COMPRESSION,
  ])
}
