import { type Queryable, statement } from '../db/database.ts'

/** A start of a job that was not its last. */
export interface EarlierAttempt {
  readonly jobId: string
  readonly startedAt: Date
  readonly endedAt: Date
  /** How it ended: `failed`, `lost`, `out_of_memory`, `snoozed` or `rerun`. */
  readonly ending: string
}

/** Of all jobs together: a tree has some thousand bars, and few of its jobs were started more than once. */
const MOST = 5000

// One that was returned never ran.
const LIST = statement(
  'list_earlier_attempts',
  `select a.job_id::text as "jobId", a.started_at as "startedAt", a.ended_at as "endedAt", a.ending
     from sluice.attempts a
    where a.job_id = any ($1::bigint[]) and a.started_at is not null and a.ending <> 'returned'
    order by a.job_id, a.attempt limit ${MOST}`,
)

/** The attempts of these jobs that have ended and were followed by another, each job's first to last. */
export async function listEarlierAttempts(db: Queryable, ids: readonly string[]): Promise<EarlierAttempt[]> {
  return db.run<EarlierAttempt & Record<string, unknown>>(LIST, [ids])
}
