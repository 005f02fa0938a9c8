import type { Sql } from '../database.ts'

/** How long the longest transaction that is open in this database has been open, in milliseconds; 0: none is. */
export async function longestOpenMs(sql: Sql): Promise<number> {
  const rows = await sql<{ ms: number }>(
    `select coalesce(max(extract(epoch from clock_timestamp() - a.xact_start)), 0)::float8 * 1000 as ms from pg_stat_activity a
      where a.datname = current_database() and a.pid <> pg_backend_pid() and a.application_name like 'sluice%' and a.state <> 'idle'`,
  )
  return rows[0]!.ms
}
