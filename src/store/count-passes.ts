import { type Queryable, statement } from '../db/database.ts'

export interface Passes {
  readonly reason: string
  readonly times: number
}

// The record is kept per class and tick. A job was passed over in every tick between becoming ready and starting.
const COUNT = statement(
  'count_passes',
  `select s.reason, count(*)::integer as times
     from sluice.jobs j join sluice.samples s on s.class_id = j.class_id and s.reason is not null
      and s.at >= j.ready_at and s.at <= case when j.state < 'running' then clock_timestamp() else coalesce(j.started_at, j.finished_at) end
    where j.id = $1 group by s.reason order by times desc`,
)

/** How often a job was passed over since it became ready, and why. */
export async function countPasses(db: Queryable, jobId: string): Promise<Passes[]> {
  return db.run<Passes & Record<string, unknown>>(COUNT, [jobId])
}
