import pg from 'pg'
import type { Sql } from '../database.ts'

/** The tables of the schema, by name. */
export async function listTables(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'sluice'::regnamespace and relkind in ('r', 'p') order by relname`,
  )
  return rows.map(({ name }) => name)
}

/** Locks a table against everybody, as ALTER TABLE or VACUUM FULL would. */
export async function lockTable(url: string, table: string): Promise<{ release(): Promise<void> }> {
  const client = new pg.Client({ connectionString: url, application_name: 'lock-holder' })
  await client.connect()
  client.on('error', () => {})
  await client.query(`begin; lock table sluice.${pg.escapeIdentifier(table)} in access exclusive mode`)
  return { release: () => client.end() }
}

/** How many sessions there are in the database, by the name of their program. Without those of the test. */
export async function countSessions(sql: Sql): Promise<Record<string, number>> {
  const rows = await sql<{ name: string; n: number }>(
    `select application_name as name, count(*)::integer as n from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
        and application_name not in ('', 'lock-holder')
      group by 1 order by 1`,
  )
  return Object.fromEntries(rows.map(({ name, n }) => [name, n]))
}

/** How many sessions wait for a lock. */
export async function countLockWaiters(sql: Sql): Promise<number> {
  const [row] = await sql<{ n: number }>(
    `select count(*)::integer as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return row!.n
}
