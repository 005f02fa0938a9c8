import type { Sql } from '../database.ts'

/** Keeps every process from running the duty until it is released: nobody can claim it. */
export async function holdDuty(sql: Sql, name: string): Promise<void> {
  await sql(
    `create or replace function sluice.hold_duty() returns trigger language plpgsql as 'begin return null; end'`,
  )
  await sql(
    `create or replace trigger hold_${name} before insert or update on sluice.duties for each row
       when (new.name = '${name}') execute function sluice.hold_duty()`,
  )
}

/** Lets the duty run again at once. */
export async function releaseDuty(sql: Sql, name: string): Promise<void> {
  await sql(`drop trigger if exists hold_${name} on sluice.duties`)
  await sql('delete from sluice.duties where name = $1', [name])
}

/** A process has claimed the duty and has not done it yet. */
export async function plantClaimedDuty(sql: Sql, name: string): Promise<void> {
  await sql(
    `insert into sluice.duties (name, due_at, ran_at) values ($1, clock_timestamp() + interval '2 s', clock_timestamp())
     on conflict (name) do update set due_at = excluded.due_at, ran_at = excluded.ran_at`,
    [name],
  )
}
