import type { Sql } from '../database.ts'

/** Keeps every process from running the duty, for an hour from now. */
export async function holdDuty(sql: Sql, name: string): Promise<void> {
  await sql(
    `insert into sluice.duties (name, due_at) values ($1, clock_timestamp() + interval '1 hour')
     on conflict (name) do update set due_at = excluded.due_at`,
    [name],
  )
}

/** Lets the duty run again at once. */
export async function releaseDuty(sql: Sql, name: string): Promise<void> {
  await sql('delete from sluice.duties where name = $1', [name])
}
