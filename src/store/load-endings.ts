import { type Queryable, statement } from '../db/database.ts'
import type { JobState } from '../model/job.ts'

export interface EndedJob {
  readonly id: string
  readonly state: JobState
  readonly result: unknown
  readonly error: string | null
}

const LOAD = statement(
  'load_endings',
  `select id, state, result, error from sluice.jobs where id = any ($1) and state >= 'completed'`,
)

/** Those of the given jobs that have ended. */
export async function loadEndings(db: Queryable, ids: readonly string[]): Promise<EndedJob[]> {
  return db.run<EndedJob & Record<string, unknown>>(LOAD, [ids])
}
