import { type Queryable, statement } from '../db/database.ts'

/** Fields of a lane as a file or program gives them. Fields left out keep what they are. */
export interface LaneRecord {
  readonly name: string
  /** `null`: no limit. */
  readonly slots?: number | null
  readonly perWorker?: number | null
  readonly pollMs?: number
  readonly staleMs?: number
  readonly ageingMs?: number | null
  readonly enabled?: boolean
}

// A lane that is new gets all values, defaults included. One that exists takes over only what was really given, except
// the fields an operator has changed since.
const CREATE = statement(
  'create_lanes',
  `insert into sluice.lanes (name, slots, per_worker, poll_ms, stale_ms, ageing_ms, enabled, updated_by)
   select g.name, g.slots, g."perWorker", g."pollMs", g."staleMs", g."ageingMs", g.enabled, $2
     from jsonb_to_recordset($1) as g(name text, slots integer, "perWorker" integer, "pollMs" integer, "staleMs" integer,
                                      "ageingMs" integer, enabled boolean)
    order by g.name
   on conflict do nothing`,
)
const SAVE = statement(
  'save_lanes',
  `update sluice.lanes l
      set slots      = case when g.given ? 'slots' and not 'slots' = any (l.operator_set) then (g.given ->> 'slots')::integer else l.slots end,
          per_worker = case when g.given ? 'perWorker' and not 'perWorker' = any (l.operator_set) then (g.given ->> 'perWorker')::integer else l.per_worker end,
          poll_ms    = case when g.given ? 'pollMs' and not 'pollMs' = any (l.operator_set) then (g.given ->> 'pollMs')::integer else l.poll_ms end,
          stale_ms   = case when g.given ? 'staleMs' and not 'staleMs' = any (l.operator_set) then (g.given ->> 'staleMs')::integer else l.stale_ms end,
          ageing_ms  = case when g.given ? 'ageingMs' and not 'ageingMs' = any (l.operator_set) then (g.given ->> 'ageingMs')::integer else l.ageing_ms end,
          enabled    = case when g.given ? 'enabled' and not 'enabled' = any (l.operator_set) then (g.given ->> 'enabled')::boolean else l.enabled end,
          updated_at = clock_timestamp(), updated_by = $2
     from (select e.given, e.given ->> 'name' as name from jsonb_array_elements($1) e(given)) g
    where l.name = g.name
      and l.name = any (array(select k.name from sluice.lanes k where k.name in (select e.given ->> 'name' from jsonb_array_elements($1) e(given))
                               order by k.name for no key update))`,
)

/**
 * Creates lanes that are missing, and applies a file's or program's values where no operator has spoken.
 *
 * @param complete Every lane with all its values, for those that do not exist yet.
 * @param given The values that were really written somewhere.
 */
export async function saveLanes(
  db: Queryable,
  complete: readonly Required<LaneRecord>[],
  given: readonly LaneRecord[],
  by: string,
): Promise<void> {
  await db.run(CREATE, [JSON.stringify(complete), by])
  if (given.length > 0) await db.run(SAVE, [JSON.stringify(given), by])
}
