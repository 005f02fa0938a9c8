import { type Queryable, statement } from '../db/database.ts'

/** A leaf job that occupies a slot just now. */
export interface RunningJob {
  readonly id: string
  readonly task: string
  readonly lane: string
  readonly workerId: string
  readonly attempt: number
  readonly startedAt: Date
  readonly cancelling: boolean
  readonly progress: number | null
  readonly message: string | null
}

const LIST = statement(
  'list_running',
  `select j.id, c.task, c.lane, j.worker_id as "workerId", j.attempt, j.started_at as "startedAt",
          j.cancel_at is not null as cancelling, n.progress, n.message
     from sluice.running j
     join sluice.classes c on c.id = j.class_id
     left join sluice.notes n on n.job_id = j.id
    order by j.worker_id, j.started_at, j.id limit $1`,
)

/** What runs, by worker, the longest first. */
export async function listRunning(db: Queryable, limit: number): Promise<RunningJob[]> {
  return db.run<RunningJob & Record<string, unknown>>(LIST, [limit])
}
