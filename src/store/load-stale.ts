import { type Queryable, statement } from '../db/database.ts'

const LOAD = statement('load_stale', 'select name, stale_ms as "staleMs" from sluice.lanes')

/** How long a lease lives without a heartbeat, by lane. */
export async function loadStale(db: Queryable): Promise<ReadonlyMap<string, number>> {
  const rows = await db.run<{ name: string; staleMs: number }>(LOAD)
  return new Map(rows.map((row) => [row.name, row.staleMs]))
}
