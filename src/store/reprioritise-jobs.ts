import { type Queryable, statement } from '../db/database.ts'

export interface ReprioritisedJob {
  readonly id: string
  readonly before: number
}

const REPRIORITISE = statement('reprioritise_jobs', 'select id, before from sluice.reprioritise_v1($1, $2)')

/**
 * Changes the priority of jobs that have not started, and of workflows, groups and fan-outs that have not ended with what
 * is below them. Others are left alone and not answered.
 */
export async function reprioritiseJobs(
  db: Queryable,
  ids: readonly string[],
  priority: number,
): Promise<ReprioritisedJob[]> {
  return db.run<ReprioritisedJob & Record<string, unknown>>(REPRIORITISE, [ids, priority])
}
