import { type Queryable, statement } from '../db/database.ts'

const REPRIORITISE = statement(
  'reprioritise_job',
  `update sluice.jobs j
      set priority = $2, rank = sluice.rank_v1($2, l.ageing_ms, j.submitted_at)
     from sluice.classes c join sluice.lanes l on l.name = c.lane
    where j.id = $1 and c.id = j.class_id and j.state < 'running'
   returning j.id, pg_notify('sluice', 'ready')`,
)

/** Changes the place of a waiting job. False when it does not wait. */
export async function reprioritiseJob(db: Queryable, id: string, priority: number): Promise<boolean> {
  return (await db.run(REPRIORITISE, [id, priority])).length === 1
}
