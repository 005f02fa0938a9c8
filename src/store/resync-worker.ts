import { type Queryable, statement } from '../db/database.ts'

export interface Resynced {
  readonly epoch: number
  /** In the order every later cycle must name them. */
  readonly lanes: readonly string[]
  /** `mark`: when it was claimed, in microseconds. */
  readonly running: readonly { readonly id: string; readonly attempt: number; readonly mark: number }[]
}

const RESYNC = statement(
  'resync_worker',
  'select lane, epoch, job_id, attempt, mark from sluice.resync_v1($1)',
)

/**
 * Fences whatever this worker still has under way and tells what the database thinks it runs.
 *
 * @returns `undefined` when the worker has been declared dead.
 */
export async function resyncWorker(db: Queryable, workerId: string): Promise<Resynced | undefined> {
  const rows = await db.run<{
    lane: string | null
    epoch: number
    job_id: string | null
    attempt: number
    mark: string
  }>(RESYNC, [workerId])
  if (rows.length === 0) return undefined
  return {
    epoch: rows[0]!.epoch,
    lanes: [...new Set(rows.map((row) => row.lane))].filter((lane) => lane !== null),
    running: rows
      .filter((row) => row.job_id !== null)
      .map((row) => ({ id: row.job_id!, attempt: row.attempt, mark: Number(row.mark) })),
  }
}
