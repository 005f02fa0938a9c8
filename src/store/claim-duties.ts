import { type Queryable, statement } from '../db/database.ts'

const CLAIM = statement(
  'claim_duties',
  `insert into sluice.duties as d (name, due_at, ran_at, ran_by)
   select g.name, clock_timestamp() + make_interval(secs => g.ms / 1000.0), clock_timestamp(), $3
     from unnest($1::text[], $2::integer[]) g(name, ms)
    where not exists (select 1 from sluice.duties k where k.name = g.name and k.due_at > clock_timestamp())
    order by g.name
   on conflict (name) do update set due_at = excluded.due_at, ran_at = excluded.ran_at, ran_by = excluded.ran_by
    where d.due_at <= clock_timestamp()
   returning d.name`,
)

/**
 * Takes those duties whose time has come and moves their next time forward.
 * With many processes, each tick of a duty goes to one of them.
 */
export async function claimDuties(
  db: Queryable,
  duties: readonly { readonly name: string; readonly everyMs: number }[],
  by: string,
): Promise<string[]> {
  const rows = await db.run<{ name: string }>(CLAIM, [
    duties.map((duty) => duty.name),
    duties.map((duty) => duty.everyMs),
    by,
  ])
  return rows.map((row) => row.name)
}
