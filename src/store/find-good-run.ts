import { type Queryable, statement } from '../db/database.ts'

// Among the latest composites only: there is no index for this question, and an old run says little.
const FIND = statement(
  'find_good_run',
  `select o.id
     from (select c.job_id, c.node from sluice.composites c order by c.job_id desc limit 50000) c
     join sluice.outcomes o on o.id = c.job_id
     join sluice.job_data d on d.id = c.job_id
    where c.node = $1 and o.id <> $2 and o.is_root and o.state = 'completed' and ($3::text is null or d.submitted_by = $3)
    order by c.job_id desc limit 1`,
)

/** The latest run of a workflow that completed, other than `except`; of this owner, where one is named. */
export async function findGoodRun(
  db: Queryable,
  workflow: string,
  except: string,
  owner?: string,
): Promise<string | undefined> {
  return (await db.run<{ id: string }>(FIND, [workflow, except, owner ?? null]))[0]?.id
}
