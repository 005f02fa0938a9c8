import { type Queryable, statement } from '../db/database.ts'

/** A worker that could run a job, with what it may claim by plan. */
export interface Planner {
  readonly id: string
  readonly name: string
  /** Jobs it could start now; at least 1, so that what is said does not depend on how busy it is. */
  readonly free: number
  readonly classes: readonly number[]
}

const FIND = statement(
  'find_planners',
  `select w.id::text as id, w.name,
          greatest(1, case w.capacity when 0 then 1000 else w.capacity - (select count(*) from sluice.jobs r where r.worker_id = w.id and r.state = 'running') end)::integer as free,
          array(select k.id from sluice.classes k where k.task = any (w.tasks) and k.requires <@ w.labels and k.budgeted order by k.id) as classes
     from sluice.jobs j join sluice.classes c on c.id = j.class_id and c.budgeted
     join sluice.workers w on w.ended_at is null and not w.draining and c.task = any (w.tasks) and c.requires <@ w.labels
    where j.id = $1
    order by w.id limit $2`,
)

/** Workers that could run a job which draws from budgets; none for any other job. */
export async function findPlanners(db: Queryable, jobId: string, limit: number): Promise<Planner[]> {
  return db.run<Planner & Record<string, unknown>>(FIND, [jobId, limit])
}
