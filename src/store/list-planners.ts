import { type Queryable, statement } from '../db/database.ts'

/** A worker that starts jobs which draw from budgets. */
export interface LivePlanner {
  readonly id: string
  readonly name: string
  /** Jobs it could start now; at least 1, so that what is said does not depend on how busy it is. */
  readonly free: number
  readonly classes: readonly number[]
  /** It runs as many jobs as it may. */
  readonly full: boolean
}

const LIST = statement(
  'list_planners',
  `select w.id::text as id, w.name, greatest(1, u.free)::integer as free, u.free <= 0 as full, k.classes
     from sluice.workers w
    cross join lateral (
      select case w.capacity when 0 then 1000 else w.capacity - count(*) end as free
        from sluice.running r where r.worker_id = w.id) u
    cross join lateral (
      select array_agg(c.id order by c.id) as classes from sluice.classes c
       where c.task = any (w.tasks) and c.requires <@ w.labels and c.budgeted) k
    where w.ended_at is null and not w.draining and k.classes is not null
      and ($2::bigint is null or (select j.class_id from sluice.jobs j where j.id = $2) = any (k.classes))
    order by w.id limit $1`,
)

/**
 * Live workers that may start jobs which draw from budgets.
 *
 * @param jobId Only those that could run this job: none where it draws from no budget.
 */
export async function listPlanners(
  db: Queryable,
  limit: number,
  jobId: string | null = null,
): Promise<LivePlanner[]> {
  return db.run<LivePlanner & Record<string, unknown>>(LIST, [limit, jobId])
}
