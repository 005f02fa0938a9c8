import { type Queryable, statement } from '../db/database.ts'

export interface JobAct {
  readonly at: Date
  readonly by: string
  readonly what: 'retry' | 'cancel'
}

/** Nobody reads more of them. */
const MOST = 100

const LIST = statement(
  'list_job_acts',
  `with recursive path as (
     select j.id, j.parent_id from sluice.jobs j where j.id = $1
     union all
     select j.id, j.parent_id from path p join sluice.jobs j on j.id = p.parent_id
   )
   select a.at, a.actor as by, split_part(a.action, '.', 2) as what
     from path p join sluice.audit a on a.target = 'job ' || p.id
    where a.action in ('job.retry', 'job.cancel') and a.refused is null
    order by a.id desc limit $2`,
)

/** Who has cancelled or retried a job, or what it is part of, the oldest first, as far as the audit goes back. */
export async function listJobActs(db: Queryable, id: string): Promise<JobAct[]> {
  return (await db.run<JobAct & Record<string, unknown>>(LIST, [id, MOST])).reverse()
}
