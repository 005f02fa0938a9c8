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
  `select g.id, j.state, j.result, j.error
     from unnest($1::bigint[]) g(id) left join sluice.jobs j on j.id = g.id
    where j.id is null or j.state >= 'completed'`,
)

/** Those of the given jobs that have ended, and the ids of those that do not exist. */
export async function loadEndings(
  db: Queryable,
  ids: readonly string[],
): Promise<{ ended: EndedJob[]; missing: string[] }> {
  const rows = await db.run<Omit<EndedJob, 'state'> & { state: JobState | null }>(LOAD, [ids])
  return {
    ended: rows.filter((row): row is EndedJob => row.state !== null),
    missing: rows.filter((row) => row.state === null).map((row) => row.id),
  }
}
