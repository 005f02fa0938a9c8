import { type Queryable, statement } from '../db/database.ts'

export interface Followed {
  readonly moved: number
  /** Jobs were moved or the search advanced, and something may be left. */
  readonly more: boolean
}

const FOLLOW = statement('move_jobs_with_tasks', 'select moved, more from sluice.move_jobs_with_tasks_v1($1)')

/** Moves some of the jobs that have not started to the lane that their task is in now. */
export async function moveJobsWithTasks(db: Queryable, limit: number): Promise<Followed> {
  return (await db.run<Followed & Record<string, unknown>>(FOLLOW, [limit]))[0]!
}
