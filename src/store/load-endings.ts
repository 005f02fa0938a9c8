import { type Queryable, statement } from '../db/database.ts'
import type { ErrorDetail } from '../model/error-detail.ts'
import type { CompositeKind, JobState } from '../model/job.ts'

export interface EndedJob {
  readonly id: string
  readonly state: JobState
  readonly result: unknown
  readonly error: string | null
  readonly task: string
  readonly composite: CompositeKind | null
  /** What its last attempt threw. */
  readonly detail: ErrorDetail | null
}

const LOAD = statement(
  'load_endings',
  `select g.id, o.state, o.result, o.error, d.task, d.composite,
          case when o.error is not null then sluice.error_detail_v1(o.id, o.attempt, o.state, o.error) end as detail
     from unnest($1::bigint[]) g(id)
     left join sluice.job_data d on d.id = g.id
     left join sluice.outcomes o on o.id = g.id
    where d.id is null or o.id is not null`,
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
