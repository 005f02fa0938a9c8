import { type Queryable, statement } from '../db/database.ts'
import type { JobState } from '../model/job.ts'

/** A job and the tree it is in. */
export interface RootedJob {
  readonly id: string
  readonly rootId: string
  /** The task or workflow of the root. */
  readonly name: string
  readonly rootState: JobState
  /** Whether it is a tree at all, or a job of its own. */
  readonly isTree: boolean
}

const FIND = statement(
  'find_roots',
  `select j.id, r.id as "rootId", r.task as name, r.state as "rootState", r.composite is not null as "isTree"
     from sluice.job_data j join sluice.jobs r on r.id = coalesce(j.root_id, j.id)
    where j.id = any ($1::bigint[])`,
)

/** The trees of jobs, by the jobs' ids. Jobs that do not exist are missing. */
export async function findRoots(db: Queryable, ids: readonly string[]): Promise<Map<string, RootedJob>> {
  const rows = await db.run<RootedJob & Record<string, unknown>>(FIND, [ids])
  return new Map(rows.map((row) => [row.id, row]))
}
