import { type Queryable, statement } from '../db/database.ts'
import type { RecoveryKind } from '../model/recovery.ts'

export interface RecoveryView {
  readonly id: string
  readonly at: Date
  readonly kind: RecoveryKind
  readonly worker: string | null
  readonly lane: string | null
  readonly jobs: number
  /** What became of jobs that were taken over. */
  readonly requeued: number
  readonly failed: number
  readonly cancelled: number
  readonly jobIds: readonly string[]
  readonly detail: string | null
}

/** Jobs, or for what is no matter of jobs events, within a time. */
export interface RecoveryTotals {
  readonly kind: RecoveryKind
  readonly hour: number
  readonly day: number
}

const LIST = statement(
  'list_recoveries',
  `select id, at, kind, worker, lane, jobs, requeued, failed, cancelled, job_ids::text[] as "jobIds", detail from sluice.recoveries
    where id < $1 and ($2::text is null or kind = $2) order by id desc limit $3`,
)

const COUNT = statement(
  'count_recoveries',
  `select kind, coalesce(sum(greatest(jobs, 1)) filter (where at > clock_timestamp() - interval '1 hour'), 0)::integer as hour,
          sum(greatest(jobs, 1))::integer as day
     from sluice.recoveries where at > clock_timestamp() - interval '1 day' group by kind`,
)

/** The newest with an id below `before`. */
export async function listRecoveries(
  db: Queryable,
  before: string,
  kind: RecoveryKind | null,
  limit: number,
): Promise<RecoveryView[]> {
  return db.run<RecoveryView & Record<string, unknown>>(LIST, [before, kind, limit])
}

/** How many there were of each kind; kinds without any are left out. */
export async function countRecoveries(db: Queryable): Promise<RecoveryTotals[]> {
  return db.run<RecoveryTotals & Record<string, unknown>>(COUNT)
}
