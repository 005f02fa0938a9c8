import type { Sql } from '../database.ts'

/** How many processes the live workers of a host may have, by name, in the order in which they are filled. */
export async function readProcesses(sql: Sql): Promise<ReadonlyMap<string, number>> {
  const rows = await sql<{ name: string; processes: number }>(
    'select name, processes from sluice.workers where ended_at is null and process_limit is not null order by rank, id',
  )
  return new Map(rows.map(({ name, processes }) => [name, processes]))
}
