import { type Queryable, statement } from '../db/database.ts'

/** A lane whose jobs wait for capacity. */
export interface SaturatedLane {
  readonly lane: string
  readonly depth: number
  readonly waitedMs: number
}

export interface SaturationChange {
  readonly lane: string
  readonly change: 'began' | 'ended'
  /** The most jobs that waited at once, and the longest that one of them had waited. */
  readonly deepest: number
  readonly longestMs: number
  readonly lastedMs: number
}

// A row that the statement has just inserted has xmax 0; one that it updated has the number of this transaction there.
const NOTE = statement(
  'record_saturation',
  `with noted as (
     insert into sluice.saturation as s (lane, deepest, longest_ms)
     select g.lane, g.depth, g.waited from unnest($1::text[], $2::integer[], $3::bigint[]) g(lane, depth, waited)
     on conflict (lane) do update
        set last_at = clock_timestamp(), deepest = greatest(s.deepest, excluded.deepest),
            longest_ms = greatest(s.longest_ms, excluded.longest_ms)
     returning s.lane, s.deepest, s.longest_ms, s.began_at, s.last_at, s.xmax = 0 as new
   ), over as (
     delete from sluice.saturation s
      where s.last_at < clock_timestamp() - make_interval(secs => $4 / 1000.0) and s.lane <> all ($1::text[])
     returning s.*
   )
   select n.lane, 'began' as change, n.deepest, n.longest_ms::float8 as "longestMs", 0::float8 as "lastedMs" from noted n where n.new
   union all
   select o.lane, 'ended', o.deepest, o.longest_ms::float8, extract(epoch from o.last_at - o.began_at)::float8 * 1000 from over o`,
)

/**
 * Records which lanes are saturated now. Answers what is new: lanes that were not before, and lanes that have not been for
 * a while.
 *
 * @param quietMs How long a lane has to be free before its episode is over.
 */
export async function recordSaturation(
  db: Queryable,
  lanes: readonly SaturatedLane[],
  quietMs: number,
): Promise<SaturationChange[]> {
  return db.run<SaturationChange & Record<string, unknown>>(NOTE, [
    lanes.map(({ lane }) => lane),
    lanes.map(({ depth }) => depth),
    lanes.map(({ waitedMs }) => Math.round(waitedMs)),
    quietMs,
  ])
}
