import { type Queryable, statement } from '../db/database.ts'

const COUNT = statement(
  'count_owners',
  `select count(distinct j.submitted_by)::integer as owners
     from (select k.submitted_by, k.parent_id from sluice.jobs k order by k.id desc limit $1) j
    where j.parent_id is null`,
)

/** How many owners have root jobs among the latest `jobs` jobs. */
export async function countOwners(db: Queryable, jobs: number): Promise<number> {
  return (await db.run<{ owners: number }>(COUNT, [jobs]))[0]!.owners
}
