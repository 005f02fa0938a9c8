import { type Queryable, statement } from '../db/database.ts'

export interface StoredLogLine {
  readonly id: string
  readonly attempt: number
  readonly at: Date
  readonly level: string
  readonly line: string
}

const READ = statement(
  'read_logs',
  'select id, attempt, at, level, line from sluice.logs where job_id = $1 and id > $2 order by id limit $3',
)

/** Log lines of a job after a given one, oldest first. */
export async function readLogs(
  db: Queryable,
  jobId: string,
  after: string,
  limit: number,
): Promise<StoredLogLine[]> {
  return db.run<StoredLogLine & Record<string, unknown>>(READ, [jobId, after, limit])
}
