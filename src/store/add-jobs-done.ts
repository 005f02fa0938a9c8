import { type Queryable, statement } from '../db/database.ts'

// Locked in the order of their ids, as whoever else writes several of them does.
const NOTE = statement(
  'add_jobs_done',
  `with own as materialized (
     select w.id from sluice.workers w where w.id = any ($1::bigint[]) order by w.id for no key update
   )
   update sluice.workers w set done = w.done + g.jobs
     from own, (select n.id, sum(n.jobs) as jobs from unnest($1::bigint[], $2::integer[]) n(id, jobs) group by n.id) g
    where w.id = own.id and g.id = own.id`,
)

/** A worker, and how many jobs it has ended since that was last noted. */
export interface DoneJobs {
  readonly workerId: string
  readonly jobs: number
}

/** Adds to what workers have done; one may be named twice. Repeated after a lost answer it may count twice. */
export async function addJobsDone(db: Queryable, done: readonly DoneJobs[]): Promise<void> {
  await db.run(NOTE, [done.map(({ workerId }) => workerId), done.map(({ jobs }) => jobs)])
}
