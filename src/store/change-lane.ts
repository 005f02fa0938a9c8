import { type Queryable, statement } from '../db/database.ts'

export interface LaneChange {
  readonly slots?: number | null
  readonly perWorker?: number | null
  readonly pollMs?: number
  readonly staleMs?: number
  readonly ageingMs?: number | null
  readonly enabled?: boolean
}

const CHANGE = statement(
  'change_lane',
  `update sluice.lanes l
      set slots      = case when $2::jsonb ? 'slots' then ($2::jsonb ->> 'slots')::integer else l.slots end,
          per_worker = case when $2::jsonb ? 'perWorker' then ($2::jsonb ->> 'perWorker')::integer else l.per_worker end,
          poll_ms    = case when $2::jsonb ? 'pollMs' then ($2::jsonb ->> 'pollMs')::integer else l.poll_ms end,
          stale_ms   = case when $2::jsonb ? 'staleMs' then ($2::jsonb ->> 'staleMs')::integer else l.stale_ms end,
          ageing_ms  = case when $2::jsonb ? 'ageingMs' then ($2::jsonb ->> 'ageingMs')::integer else l.ageing_ms end,
          enabled    = case when $2::jsonb ? 'enabled' then ($2::jsonb ->> 'enabled')::boolean else l.enabled end,
          operator_set = array(select distinct f from unnest(l.operator_set || array(select jsonb_object_keys($2::jsonb))) f order by f),
          updated_at = clock_timestamp(), updated_by = $3
    where l.name = $1
   returning l.name, pg_notify('sluice', 'lane')`,
)

/** An operator's change: it stays until it is reset, whatever files say. False when there is no such lane. */
export async function changeLane(
  db: Queryable,
  name: string,
  change: LaneChange,
  by: string,
): Promise<boolean> {
  return (await db.run(CHANGE, [name, JSON.stringify(change), by])).length === 1
}
