import { type Queryable, statement } from '../db/database.ts'
import type { JobState } from '../model/job.ts'

const FIND = statement(
  'find_active_job',
  `with recursive tree as (
     select j.id, j.state, j.composite from sluice.jobs j where j.id = $1
     union all
     select k.id, k.state, k.composite from tree t join sluice.jobs k on k.parent_id = t.id and k.superseded_at is null
      where t.composite is not null
   )
   select t.id, t.state from tree t where t.state < 'completed' limit 1`,
)

/** A job of a tree that has not ended, the root itself if it is one. */
export async function findActiveJob(
  db: Queryable,
  rootId: string,
): Promise<{ readonly id: string; readonly state: JobState } | undefined> {
  return (await db.run<{ id: string; state: JobState }>(FIND, [rootId]))[0]
}
