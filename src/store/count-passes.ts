import { type Queryable, statement } from '../db/database.ts'

export interface Passes {
  readonly reason: string
  readonly times: number
}

// The record is kept per class, in runs of samples with one obstacle. A job was passed over in every sample between becoming
// ready and starting; of a run that it waited through in part, in that part.
const COUNT = statement(
  'count_passes',
  `select sluice.why_waiting_text_v1(s.obstacle, s.details) as reason,
          sum(case when s.at = s.since then 1
                   else greatest(1, round(s.times * extract(epoch from least(s.at, w.until) - greatest(s.since, w.since))
                                          / extract(epoch from s.at - s.since))) end)::integer as times
     from sluice.jobs j
    cross join lateral (
      select j.ready_at as since, case when j.state < 'running' then clock_timestamp() else coalesce(j.started_at, j.finished_at) end as until) w
     join sluice.samples s on s.class_id = j.class_id and s.obstacle is not null and s.at >= w.since and s.since <= w.until
    where j.id = $1 group by s.obstacle, s.details order by times desc`,
)

/** How often a job was passed over since it became ready, and why; known for as long as the job is kept. */
export async function countPasses(db: Queryable, jobId: string): Promise<Passes[]> {
  return db.run<Passes & Record<string, unknown>>(COUNT, [jobId])
}
