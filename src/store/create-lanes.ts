import { type Queryable, statement } from '../db/database.ts'

/** A lane with all its values. */
export interface LaneRecord {
  readonly name: string
  /** `null`: no limit. */
  readonly slots: number | null
  readonly perWorker: number | null
  readonly pollMs: number
  readonly staleMs: number
  readonly ageingMs: number | null
  readonly enabled: boolean
  readonly placement: 'fill' | 'spread'
  readonly prefetch: number
}

const CREATE = statement(
  'create_lanes',
  `insert into sluice.lanes (name, slots, per_worker, poll_ms, stale_ms, ageing_ms, enabled, placement, prefetch, updated_by, declared)
   select g.name, g.slots, g."perWorker", g."pollMs", g."staleMs", g."ageingMs", g.enabled, g.placement, g.prefetch, $2, to_jsonb(g) - 'name'
     from jsonb_to_recordset($1) as g(name text, slots integer, "perWorker" integer, "pollMs" integer, "staleMs" integer,
                                      "ageingMs" integer, enabled boolean, placement text, prefetch integer)
    -- What is declared already is not even looked at: its row may be locked.
    where not exists (select 1 from sluice.lanes k where k.name = g.name and k.declared <> '{}')
    order by g.name
   on conflict (name) do update
      set declared = excluded.declared,
          (slots, per_worker, poll_ms, stale_ms, ageing_ms, enabled, placement, prefetch, deleted_at) = (
            select v.slots, v.per_worker, v.poll_ms, v.stale_ms, v.ageing_ms, v.enabled, v.placement, v.prefetch, v.deleted_at
              from (values (true, excluded.slots, excluded.per_worker, excluded.poll_ms, excluded.stale_ms, excluded.ageing_ms,
                            excluded.enabled, excluded.placement, excluded.prefetch, null::timestamptz),
                           (false, lanes.slots, lanes.per_worker, lanes.poll_ms, lanes.stale_ms, lanes.ageing_ms,
                            lanes.enabled, lanes.placement, lanes.prefetch, lanes.deleted_at))
                   v(again, slots, per_worker, poll_ms, stale_ms, ageing_ms, enabled, placement, prefetch, deleted_at)
             where v.again = (lanes.deleted_at is not null and lanes.deleted_to is null))
    where lanes.declared = '{}'`,
)

/**
 * Creates the lanes that do not exist yet; the others stay as they are. One that only an operator made is declared from now on. One that
 * an operator deleted while nothing used it, and nobody had declared, is created again: something uses it now.
 */
export async function createLanes(db: Queryable, lanes: readonly LaneRecord[], by: string): Promise<void> {
  await db.run(CREATE, [JSON.stringify(lanes), by])
}
