import { type Queryable, statement } from '../db/database.ts'

/** When idle workers are told: as soon as this statement commits, or with the caller's own transaction. */
export type Hint = 'none' | 'soon' | 'commit'

export interface SubmittedJob {
  readonly id: string
  /** True when an active job with the same key was found and nothing was stored. */
  readonly attached: boolean
}

// Types are spelled out for callers' drivers: some send what they take for the right type, some give bigints as numbers.
const SUBMIT = statement(
  'submit_jobs',
  'select id::text as id, attached from sluice.submit_v1($1::text::jsonb, $2::text) order by ord',
)

/**
 * Stores jobs in one statement, all or none, and answers in the order given.
 *
 * @param jobs JSON text of an array; the fields are described at `sluice.submit_v1`.
 */
export async function submitJobs(db: Queryable, jobs: string, hint: Hint): Promise<SubmittedJob[]> {
  return db.run<{ id: string; attached: boolean }>(SUBMIT, [jobs, hint])
}
