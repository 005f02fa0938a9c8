import { type Queryable, statement } from '../db/database.ts'

/** Lines of one job after a line. */
export interface LogRequest {
  readonly jobId: string
  readonly after: number
}

export interface NewLogLine {
  /** Which of the requests it answers, from 1. */
  readonly request: number
  readonly id: number
  readonly jobId: string
  readonly attempt: number
  readonly at: Date
  readonly level: string
  readonly line: string
}

const READ = statement(
  'read_new_logs',
  `select g.request::integer, l.id::float8, l.job_id as "jobId", l.attempt, l.at, l.level, l.line
     from unnest($1::bigint[], $2::bigint[]) with ordinality g(job, after, request)
    cross join lateral (
      select * from sluice.logs k where k.job_id = g.job and k.id > g.after and k.id <= $3 order by k.id limit $4) l
    order by l.id`,
)

/** For each request up to `limit` lines, none above `bound`; all together in the order of their ids. */
export async function readNewLogs(
  db: Queryable,
  requests: readonly LogRequest[],
  bound: number,
  limit: number,
): Promise<NewLogLine[]> {
  return db.run<NewLogLine & Record<string, unknown>>(READ, [
    requests.map(({ jobId }) => jobId),
    requests.map(({ after }) => after),
    bound,
    limit,
  ])
}
