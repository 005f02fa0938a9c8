import { type Queryable, statement } from '../db/database.ts'
import type { ErrorDetail } from '../model/error-detail.ts'
import type { CompositeKind, JobState } from '../model/job.ts'

/** How a job stands, for whoever watches it or a tree it is part of. */
export interface WatchedRow {
  /** Which of the jobs asked for it belongs to, from 1. */
  readonly watch: number
  readonly id: string
  readonly parentId: string | null
  readonly index: number | null
  readonly step: string | null
  readonly task: string
  readonly kind: CompositeKind | null
  readonly state: JobState
  readonly cancelling: boolean
  readonly attempt: number
  readonly failures: number
  readonly losses: number
  readonly priority: number
  readonly worker: string | null
  readonly error: string | null
  /** Of the job asked for only; those below it may be many. */
  readonly detail: ErrorDetail | null
  readonly readyAt: Date
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  /** The transaction that wrote this, the lower half of its number. */
  readonly written: string
  readonly progress: number | null
  readonly message: string | null
  /** Of a fan-out, as far as it has been told. */
  readonly total: number | null
  readonly completed: number | null
  readonly failed: number | null
  readonly cancelled: number | null
  /** The transaction that wrote progress or counts. */
  readonly told: string | null
}

const WATCH = statement(
  'watch_jobs',
  `select t.snapshot, t.watch, t.id, t.parent_id as "parentId", t.idx as index, t.step, t.task, t.kind, t.state, t.cancelling, t.attempt,
          t.failures, t.losses, t.priority, w.name as worker, t.error, t.detail, t.ready_at as "readyAt", t.started_at as "startedAt",
          t.finished_at as "finishedAt", t.written, t.progress, t.message, t.total, t.completed, t.failed, t.cancelled, t.told
     from sluice.watch_jobs_v1($1, $2, $3) t left join sluice.workers w on w.id = t.worker_id
    order by t.watch, t.id`,
)

/**
 * Looks at jobs, with what is below them to `levels`, all at one moment.
 *
 * @returns the rows in the order of the jobs asked for, then of their ids, and the snapshot of that moment; none when no job is there.
 */
export async function watchJobs(
  db: Queryable,
  jobs: readonly { readonly id: string; readonly levels: number }[],
  wide: number,
): Promise<{ snapshot: string | undefined; rows: WatchedRow[] }> {
  const rows = await db.run<WatchedRow & { snapshot: string } & Record<string, unknown>>(WATCH, [
    jobs.map(({ id }) => id),
    jobs.map(({ levels }) => levels),
    wide,
  ])
  return { snapshot: rows[0]?.snapshot, rows }
}
