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
}

const CREATE = statement(
  'create_lanes',
  `insert into sluice.lanes (name, slots, per_worker, poll_ms, stale_ms, ageing_ms, enabled, placement, updated_by, declared)
   select g.name, g.slots, g."perWorker", g."pollMs", g."staleMs", g."ageingMs", g.enabled, g.placement, $2, to_jsonb(g) - 'name'
     from jsonb_to_recordset($1) as g(name text, slots integer, "perWorker" integer, "pollMs" integer, "staleMs" integer,
                                      "ageingMs" integer, enabled boolean, placement text)
    order by g.name
   on conflict (name) do update set declared = excluded.declared where lanes.declared = '{}'`,
)

/** Creates the lanes that do not exist yet; the others stay as they are. One that only an operator made is declared from now on. */
export async function createLanes(db: Queryable, lanes: readonly LaneRecord[], by: string): Promise<void> {
  await db.run(CREATE, [JSON.stringify(lanes), by])
}
