import type { Sql } from '../database.ts'

/** So many lines of the audit that are so many days old. */
export async function plantAudit(sql: Sql, action: string, days: number, count: number): Promise<void> {
  await sql(
    `insert into sluice.audit (at, actor, action)
     select clock_timestamp() - make_interval(days => $2), 'planted', $1 from generate_series(1, $3)`,
    [action, days, count],
  )
}

export async function emptyAudit(sql: Sql): Promise<void> {
  await sql('delete from sluice.audit')
}

/** How many lines there are of each action. */
export async function countAudit(sql: Sql): Promise<Record<string, number>> {
  const rows = await sql<{ action: string; n: number }>(
    'select action, count(*)::integer as n from sluice.audit group by action',
  )
  return Object.fromEntries(rows.map(({ action, n }) => [action, n]))
}

/** The lines about a target, oldest first. */
export function readAudit(
  sql: Sql,
  target: string,
  action: string,
): Promise<{ actor: string; before: unknown; after: unknown; refused: string | null }[]> {
  return sql(
    'select actor, before, after, refused from sluice.audit where target = $1 and action = $2 order by id',
    [target, action],
  )
}
