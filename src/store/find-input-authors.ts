import { type Queryable, statement } from '../db/database.ts'

const FIND = statement(
  'find_input_authors',
  `select coalesce(r.chosen_by, '{}') as names
     from sluice.jobs r where r.id = (select coalesce(j.root_id, j.id) from sluice.jobs j where j.id = $1)`,
)

/** Who chose what a job runs with, besides who submitted it: editors of its schedule, authors of retries with an input. */
export async function findInputAuthors(db: Queryable, id: string): Promise<readonly string[]> {
  return (await db.run<{ names: string[] }>(FIND, [id]))[0]?.names ?? []
}
