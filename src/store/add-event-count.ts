import { type Queryable, statement } from '../db/database.ts'

const ADD = statement(
  'add_tally',
  `insert into sluice.tallies as t (name, minute, n) values ($1, date_trunc('minute', clock_timestamp()), $2)
   on conflict (name, minute) do update set n = t.n + excluded.n`,
)

/** Adds to how often something happened in this minute. Repeated after a lost answer it may count twice. */
export async function addEventCount(db: Queryable, name: string, n: number): Promise<void> {
  await db.run(ADD, [name, n])
}
