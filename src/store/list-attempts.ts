import { type Queryable, statement } from '../db/database.ts'
import type { ErrorDetail } from '../model/error-detail.ts'

export interface AttemptView {
  readonly attempt: number
  readonly worker: string | null
  readonly startedAt: Date | null
  readonly endedAt: Date | null
  /** `running` for the one under way; otherwise how it ended. */
  readonly ending: string
  /** `null` for the one under way: what the job still tells is the error of the one before. */
  readonly error: string | null
  /** Of what it threw: class, stack, causes and content. `null` when it threw nothing. */
  readonly detail: ErrorDetail | null
}

const LIST = statement(
  'list_attempts',
  `select a.attempt, w.name as worker, a.started_at as "startedAt", a.ended_at as "endedAt", a.ending, a.error, e.detail
     from (select attempt, worker_id, started_at, ended_at, ending, error from sluice.attempts where job_id = $1
           union all
           select attempt, worker_id, started_at, finished_at, state::text, case when state = 'running' then null else error end from sluice.jobs_by_id_v1(array[$1::bigint]) jobs
            where attempt > 0 and state >= 'running'
              and not exists (select 1 from sluice.attempts x where x.job_id = jobs.id and x.attempt = jobs.attempt)) a
     left join sluice.workers w on w.id = a.worker_id
     left join sluice.attempt_errors e on e.job_id = $1 and e.attempt = a.attempt
    order by a.attempt`,
)

/** Every start of a job, first to last. */
export async function listAttempts(db: Queryable, jobId: string): Promise<AttemptView[]> {
  return db.run<AttemptView & Record<string, unknown>>(LIST, [jobId])
}
