import { type Queryable, statement } from '../db/database.ts'

const LOAD = statement('load_graphs', 'select hash, body from sluice.graphs where hash = any ($1)')

/** Graphs by their hashes. */
export async function loadGraphs(db: Queryable, hashes: readonly string[]): Promise<Map<string, unknown>> {
  const rows = await db.run<{ hash: string; body: unknown }>(LOAD, [hashes])
  return new Map(rows.map((row) => [row.hash, row.body]))
}
