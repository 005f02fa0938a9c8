import { type Queryable, statement } from '../db/database.ts'

const FIND = statement(
  'find_choosers',
  `select coalesce(r.chosen_by, '{}') as names
     from sluice.job_data j join sluice.job_data r on r.id = coalesce(j.root_id, j.id) where j.id = $1`,
)

/** Who chose what a job runs with, besides who submitted it: editors of its schedule, authors of retries with an input. */
export async function findChoosers(db: Queryable, id: string): Promise<readonly string[]> {
  return (await db.run<{ names: string[] }>(FIND, [id]))[0]?.names ?? []
}
